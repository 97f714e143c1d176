// The list of mutants. A kernel file is compiled several times, so each name enters several times.
#ifdef HOTFIRE_WITH_MUTANTS

#include "mutants.h"
#include "mutant.hpp"

#include <cstring>

namespace hotfire {

// Set before any constructor runs, so that the order of the object files does not matter.
static constinit Mutant *first = nullptr;

Mutant::Mutant(const char *operation, const char *name, const char *doc, bool *on)
    : operation(operation), name(name), doc(doc), on(on) {
    Mutant **place = &first;
    while (*place && std::strcmp((*place)->name, name) <= 0)
        place = &(*place)->next;
    next = *place;
    *place = this;
}

// The list is sorted, so equal names are neighbours.
static const Mutant *at(uint64_t index) {
    const char *last = "";
    for (const Mutant *mutant = first; mutant; mutant = mutant->next) {
        if (std::strcmp(mutant->name, last) != 0 && index-- == 0)
            return mutant;
        last = mutant->name;
    }
    return nullptr;
}

} // namespace hotfire

using namespace hotfire;

extern "C" const char *hotfire_mutant_name(uint64_t index) {
    const Mutant *mutant = at(index);
    return mutant ? mutant->name : nullptr;
}

extern "C" const char *hotfire_mutant_operation(uint64_t index) {
    const Mutant *mutant = at(index);
    return mutant ? mutant->operation : nullptr;
}

extern "C" const char *hotfire_mutant_doc(uint64_t index) {
    const Mutant *mutant = at(index);
    return mutant ? mutant->doc : nullptr;
}

extern "C" int32_t hotfire_mutant_select(const char *name) {
    bool found = !name || !*name;
    for (Mutant *mutant = first; mutant; mutant = mutant->next) {
        *mutant->on = name && std::strcmp(mutant->name, name) == 0;
        found |= *mutant->on;
    }
    return found;
}

#endif
