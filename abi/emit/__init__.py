"""What a mirror can compile in so that it corrects itself: assertions, or the right declaration.

Assertions hold the library's sizes, alignments, offsets and values; a mirror that drifted no
longer compiles. Declarations are the library's records as the mirror's language writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Manifest, Record
from hotfire.errors import InputError

LANGUAGES = ("c", "rust", "ctypes", "cffi")
FORMS = ("assertions", "declarations")
_MODULES = {"c": "c", "rust": "rust", "ctypes": "ctypes_", "cffi": "cffi_"}


def emit(library: Manifest, language: str, form: str, names: frozenset[str] | None = None) -> str:
    """Text to compile into a mirror.

    Args:
        library: the manifest of the library that the mirror must fit.
        language: one of LANGUAGES.
        form: one of FORMS.
        names: records and functions to write; None for all that the library declares.

    Raises:
        InputError: if a language, form or name is not known.
    """
    if language not in LANGUAGES or form not in FORMS:
        raise InputError(
            f"expected a language of {', '.join(LANGUAGES)} and a form of {', '.join(FORMS)}, "
            f"got {language} and {form}"
        )
    if names is not None and (unknown := names - library.names()):
        raise InputError(f"the library has no {', '.join(sorted(unknown))}")
    module = import_module(f"hotfire.abi.emit.{_MODULES[language]}")
    write: Callable[[Manifest, frozenset[str] | None], str] = getattr(module, form)
    return write(library, names)


def records_in_order(library: Manifest, names: frozenset[str] | None) -> Iterator[Record]:
    """Records that are laid out, each after those that it holds by value."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[Record]:
        record = library.records.get(name)
        if record is None or name in done:
            return
        done.add(name)
        for member in record.fields:
            yield from visit(_held(member.type))
        if not record.opaque:
            yield record

    for name in sorted(library.records):
        if name in library.declared if names is None else name in names:
            yield from visit(name)


def _held(of: Type) -> str:
    while of.kind == "array":
        of = of.target
    return of.name if of.is_record else ""


def is_unnamed(library: Manifest, name: str) -> bool:
    """Whether a record's name is only what readers call a type without one."""
    # `typedef struct {} *handle;` names a pointer, not the record.
    return name in library.records and ("." in name or name in library.typedefs)


def enums_of(library: Manifest, names: frozenset[str] | None) -> list[str]:
    """Enums to write, by name."""
    wanted = library.declared if names is None else names
    return [name for name in sorted(library.enums) if name in wanted and "." not in name]


def functions_of(library: Manifest, names: frozenset[str] | None) -> list[str]:
    """Functions to write, by name."""
    wanted = library.declared if names is None else names
    return [name for name in sorted(library.functions) if name in wanted]
