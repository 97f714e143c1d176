"""Writes a failure as one C file that needs nothing but a compiler and the library.

The program opens a library with our interface, lays the operands out against inaccessible pages,
makes the calls and compares each with what the reference says, element by element. Operands of one
name lie in the same place at every call, as a fault may go by addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfire.errors import InputError
from hotfire.props.case import Case, decoded, draw_inputs, parse
from hotfire.props.execute import WORKSPACE, Broken, Made, Subject
from hotfire.props.properties import Property, property_named
from hotfire.props.replay import Saved
from hotfire.props.runner import Runner
from hotfire.props.search import kernels_of
from hotfire.props.strides import rows_of, spread, strides_of, told
from hotfire.ref.c_header import argument, prototype
from hotfire.ref.formats import FORMATS
from hotfire.ref.operation import Operand, Operation, Values, evaluate, measure
from hotfire.ref.registry import operation

MAX_BYTES = 1 << 20
"""The most bytes of operands that a C file is written for."""

_MAIN = """
int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s LIBRARY [MUTANT]\\n", argv[0]);
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\\n", dlerror());
        return 2;
    }
    if (argc > 2) {
        int32_t (*select)(const char *) = dlsym(library, "hotfire_mutant_select");
        if (!select || !select(argv[2])) {
            fprintf(stderr, "no mutant %s\\n", argv[2]);
            return 2;
        }
    }
    hotfire_status (*create)(const hotfire_context_params *, hotfire_context **) =
        dlsym(library, "hotfire_context_create");
    hotfire_context_params params = {sizeof params, HOTFIRE_ABI_VERSION, 0, ISA};
    hotfire_exec exec = {sizeof exec, FLAGS, 0, 0, 0, 0};
    if (create(&params, &exec.context)) {
        fprintf(stderr, "the context was refused\\n");
        return 2;
    }
    int wrong = 0;
"""


ONE_CALL = ("agrees_with_reference", "exact_on_designed_inputs", "holds_at_length")
"""Properties that make one call and compare it with the reference."""


def one_call(op: Operation, case: Case) -> list[Made]:
    """The call that such a property makes."""
    inputs = draw_inputs(op, case)
    return [Made(case, inputs.stored, inputs.scalars, {})]


def calls_of(subject: Subject, stated: Property, case: Case) -> list[Made]:
    """The calls that a relation makes, up to the first whose result is wrong by itself.

    Raises:
        InputError: if there is none: what fails is a comparison of calls with one another.
    """
    recorded: list[Made] = []
    recording = Subject(subject.runner, subject.kernel, subject.operation, recorded)
    with suppress(Broken):
        stated.holds(recording, case)
    for index, made in enumerate(recorded):
        if _is_wrong(subject.operation, made):
            return recorded[: index + 1]
    raise InputError(
        f"{stated.name} compares calls each of which is right by itself, so no C file can show it; "
        "`hotfire props replay` does"
    )


def _is_wrong(operation: Operation, made: Made) -> bool:
    if not made.got:
        return True
    want, bound = _expected(operation, made, is_exact=False)
    for each in operation.outputs:
        got = each.format.decode(made.got[each.name], want[each.name].shape)
        with np.errstate(invalid="ignore"):
            right = np.abs(got - want[each.name]) <= bound[each.name]
        if not (right | np.isinf(bound[each.name])).all():
            return True
    return False


def _expected(operation: Operation, made: Made, is_exact: bool) -> tuple[Values, Values]:
    """The reference and its bound, infinite where poison reaches."""
    logical = decoded(operation, made.stored, made.case.sizes)
    arguments = (logical, made.scalars, made.case.sizes)
    want = evaluate(operation.reference, *arguments)
    bound = evaluate(operation.fast_bound or operation.bound, *arguments)
    for each in operation.outputs:
        values = want[each.name]
        bound[each.name] = np.broadcast_to(bound[each.name], values.shape)
        if is_exact and not each.format.is_lossy and not each.format.is_integer:
            want[each.name] = values.astype(np.float32).astype(np.float64)
            bound[each.name] = np.zeros_like(values)
        elif not each.format.is_integer:
            bound[each.name] = np.where(np.isnan(values), np.inf, bound[each.name])
            want[each.name] = np.where(np.isnan(values), 0, values)
    return want, bound


def export_saved(kept: Saved) -> str:
    """The C file of a saved failure.

    Raises:
        InputError: if it cannot be shown so.
    """
    op = operation(kept.operation)
    case = parse(op, kept.case)
    about = f"{kept.property} does not hold on {kept.provider} {kept.variant}:"
    if kept.property in ONE_CALL:
        return export(op, one_call(op, case), kept.variant, about)
    with Runner(kept.provider) as runner:
        (kernel,) = kernels_of(runner, [op.name], kept.variant)
        calls = calls_of(Subject(runner, kernel, op), property_named(kept.property), case)
    return export(op, calls, kept.variant, about)


def export(operation: Operation, calls: Sequence[Made], variant: str, about: str) -> str:
    """The C file's text.

    Args:
        operation: what is called.
        calls: in their order; a single one of designed inputs must be exact.
        variant: the instruction set, and `-fast`.
        about: a line that says what failed.

    Raises:
        InputError: if the operands are too large for a source file, or the variant is none of
            the library's.
    """
    if sum(data.size for made in calls for data in made.stored.values()) > MAX_BYTES:
        raise InputError(f"the operands have more than {MAX_BYTES} bytes; shrink the case first")
    isa = variant.removesuffix("-fast")
    codes = {"scalar": 1, "avx2": 2, "avx512": 3}
    if isa not in codes:
        raise InputError(f"variant {variant!r} has no C interface; expected {', '.join(codes)}")
    is_exact = len(calls) == 1 and calls[0].case.is_designed
    lines = [
        f"/* {about}",
        *(f" * {operation.name} {made.case}" for made in calls),
        " * Compile: cc -std=gnu11 FILE -ldl -lm    Run: ./a.out LIBRARY [MUTANT]",
        " */",
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <math.h>\n#include <stdint.h>",
        "#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n#include <unistd.h>\n",
        (files("hotfire") / "hotfire.cdef").read_text(encoding="utf-8"),
        *(fmt.c_declaration for fmt in FORMATS.values() if fmt.c_declaration),
        prototype(operation).replace("hotfire_status hotfire_", "typedef hotfire_status kernel_"),
        f"#define ISA {codes[isa]}",
        f"#define FLAGS {int(variant.endswith('-fast'))}",
        f"#define ROOM {_room(operation, calls)}ul\n",
    ]
    for number, made in enumerate(calls):
        lines += _data(operation, made, number, *_expected(operation, made, is_exact))
    lines += [_place(calls[0].case), _decoders(), _MAIN]
    lines += [f'    kernel_{operation.name} *kernel = dlsym(library, "hotfire_{operation.name}");']
    for number, made in enumerate(calls):
        lines += ["    {", *_call(operation, made, number), "    }"]
    lines += ['    puts(wrong ? "wrong" : "right");\n    return wrong;', "}"]
    return "\n".join(lines) + "\n"


def _workspace_size(operation: Operation, case: Case) -> int:
    asked = measure(operation.workspace, case.sizes) if operation.workspace else 0
    return -(-asked // 64) * 64


def _room(operation: Operation, calls: Sequence[Made]) -> int:
    """Bytes of the largest operand or workspace."""
    sizes = [_workspace_size(operation, made.case) for made in calls]
    for made in calls:
        sizes += [_n_bytes(operation, each, made.case) for each in operation.operands]
    return max(sizes)


def _data(
    operation: Operation, made: Made, number: int, want: Values, bound: Values
) -> Iterator[str]:
    """The arrays of one call: operands before it, and what the reference says."""
    for name, data in made.stored.items():
        if name != WORKSPACE:
            data = spread(operation, operation.operand(name), made.case, data)
        yield f"static const unsigned char {name}_bytes_{number}[] = {_array(data)};"
    for each in operation.outputs:
        for word, values in (("want", want), ("bound", bound)):
            array = _array(values[each.name])
            yield f"static const double {each.name}_{word}_{number}[] = {array};"


def _array(values: NDArray[Any]) -> str:
    """A C initialiser; one element where there is none."""
    flat = values.reshape(-1).tolist() or [0]
    words = [_number(each) for each in flat]
    rows = [", ".join(words[i : i + 12]) for i in range(0, len(words), 12)]
    return "{\n    " + ",\n    ".join(rows) + "}"


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return value.hex()


def _place(case: Case) -> str:
    """The C function that lays an operand against an inaccessible page; one place a slot."""
    at = "page" if case.side == "start" else "page + room - n_bytes"
    return f"""
static void *place(int slot, const void *bytes, size_t n_bytes) {{
    static char *pages[64];
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    const size_t room = (ROOM + page_size - 1) / page_size * page_size + page_size;
    if (!pages[slot]) {{
        char *memory = mmap(0, room + 2 * page_size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(memory, page_size, PROT_NONE);
        mprotect(memory + page_size + room, page_size, PROT_NONE);
        pages[slot] = memory + page_size;
    }}
    char *page = pages[slot], *at = {at};
    memset(page, 0xFF, room);
    if (bytes)
        memcpy(at, bytes, n_bytes);
    return at;
}}
"""


def _decoders() -> str:
    """The C functions that read one value of each format."""
    return """
static inline double read_f32(const void *p, long i) { return ((const float *)p)[i]; }
static inline double read_i32(const void *p, long i) { return ((const int32_t *)p)[i]; }
static inline double read_bf16(const void *p, long i) {
    const uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline double read_f16(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                        : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                       : ldexp(fraction, -24);
    return h >> 15 ? -size : size;
}
static inline double read_q8_0(const void *p, long i) {
    const hotfire_block_q8_0 *block = (const hotfire_block_q8_0 *)p + i / 32;
    return read_f16(block->d) * block->qs[i % 32];
}
static inline double read_q4_0(const void *p, long i) {
    const hotfire_block_q4_0 *block = (const hotfire_block_q4_0 *)p + i / 32;
    const int byte = block->qs[i % 16];
    return read_f16(block->d) * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}
static int compare(const char *name, const void *got, double (*read)(const void *, long),
                   const double *want, const double *bound, long n, long width, long stride) {
    long n_wrong = 0, worst = -1;
    double worst_got = 0;
    for (long i = 0; i < n; ++i) {
        const double is = read(got, i / width * stride + i % width);
        if (!isinf(bound[i]) && !(fabs(is - want[i]) <= bound[i]) && (n_wrong++ == 0 ||
            fabs(is - want[i]) > fabs(worst_got - want[worst]))) {
            worst = i;
            worst_got = is;
        }
    }
    if (n_wrong)
        printf("%s[%ld]: want %.9g, got %.9g, bound %.3g; %ld of %ld elements are wrong\\n", name,
               worst, want[worst], worst_got, bound[worst], n_wrong, n);
    return n_wrong != 0;
}"""


def _call(operation: Operation, made: Made, number: int) -> Iterator[str]:
    """The statements that place the operands of one call, make it and compare."""
    case = made.case

    def bytes_of(name: str) -> str:
        return f"{name}_bytes_{number}" if name in made.stored else "0"

    for slot, each in enumerate(operation.operands):
        n_bytes = _n_bytes(operation, each, case)
        placed = f"place({slot}, {bytes_of(each.name)}, {n_bytes})"
        if case.in_place and each.in_place:
            placed = f"({_type(each)}){each.in_place}"
        yield f"        {_type(each)} {each.name} = {placed};"
    size = _workspace_size(operation, case)
    if size:
        slot = len(operation.operands)
        yield f"        exec.workspace = place({slot}, {bytes_of(WORKSPACE)}, {size});"
        yield f"        exec.workspace_size = {size};"
    arguments = [each.name for each in operation.operands]
    arguments += [f"(float){_number(made.scalars[each.name])}" for each in operation.scalars]
    sizes = told(operation, case)
    arguments += [str(sizes[argument(axis)]) for axis in operation.axes]
    yield f"        const hotfire_status status = kernel(&exec, {', '.join(arguments)});"
    yield '        if (status) {\n            printf("status %d\\n", (int)status);'
    yield "            return 1;\n        }"
    for each in operation.outputs:
        shape = each.shape(case.sizes)
        stride = strides_of(operation, case).get(each.name, shape[-1])
        yield (
            f'        wrong |= compare("call {number}: {each.name}", {each.name}, '
            f"read_{each.dtype}, {each.name}_want_{number}, {each.name}_bound_{number}, "
            f"{prod(shape)}, {shape[-1]}, {stride});"
        )


def _n_bytes(operation: Operation, operand: Operand, case: Case) -> int:
    """Of an operand in memory, gaps between its rows included."""
    rows = rows_of(operation, operand, case)
    return rows.n_bytes if rows else operand.format.n_bytes(operand.shape(case.sizes))


def _type(operand: Operand) -> str:
    return f"{operand.format.c_type} *"
