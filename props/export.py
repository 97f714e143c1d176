"""Writes a failure as one C file that needs nothing but a compiler and the library.

The program opens a library with our interface, lays the operands out against inaccessible pages,
calls the kernel once and compares with what the reference says, element by element.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfire.errors import InputError
from hotfire.props.case import Case, draw_inputs
from hotfire.ref.c_header import prototype
from hotfire.ref.formats import FORMATS
from hotfire.ref.operation import Operand, Operation, evaluate, measure

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
    hotfire_exec exec = {sizeof exec, FLAGS, 0, 0, 0, WORKSPACE_SIZE};
    if (create(&params, &exec.context)) {
        fprintf(stderr, "the context was refused\\n");
        return 2;
    }
    if (WORKSPACE_SIZE)
        exec.workspace = place(0, WORKSPACE_SIZE);
"""


def export(operation: Operation, case: Case, variant: str, about: str) -> str:
    """The C file's text.

    Args:
        operation: what the case is of.
        case: whose call is written out; a relation's first call, where it makes several.
        variant: the instruction set, and `-fast`.
        about: a line that says what failed.

    Raises:
        InputError: if the operands are too large for a source file, or the variant is none of
            the library's.
    """
    inputs = draw_inputs(operation, case)
    if sum(data.size for data in inputs.stored.values()) > MAX_BYTES:
        raise InputError(f"the operands have more than {MAX_BYTES} bytes; shrink the case first")
    isa = variant.removesuffix("-fast")
    codes = {"scalar": 1, "avx2": 2, "avx512": 3}
    if isa not in codes:
        raise InputError(f"variant {variant!r} has no C interface; expected {', '.join(codes)}")
    want = evaluate(operation.reference, inputs.logical, inputs.scalars, case.sizes)
    bound = evaluate(operation.bound, inputs.logical, inputs.scalars, case.sizes)
    for each in operation.outputs:
        if case.is_designed and not each.format.is_lossy and not each.format.is_integer:
            want[each.name] = want[each.name].astype(np.float32).astype(np.float64)
            bound[each.name] = np.zeros_like(want[each.name])
    asked = measure(operation.workspace, case.sizes) if operation.workspace else 0
    lines = [
        f"/* {about}",
        f" * {operation.name} {case}",
        " * Compile: cc -std=gnu11 FILE -ldl -lm    Run: ./a.out LIBRARY [MUTANT]",
        " */",
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <math.h>\n#include <stdint.h>",
        "#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n#include <unistd.h>\n",
        (files("hotfire") / "hotfire.cdef").read_text(encoding="utf-8"),
        *(fmt.c_declaration for fmt in FORMATS.values() if fmt.c_declaration),
        prototype(operation).replace("hotfire_status hotfire_", "typedef hotfire_status kernel_"),
        f"#define ISA {codes[isa]}",
        f"#define FLAGS {int(variant.endswith('-fast'))}",
        f"#define WORKSPACE_SIZE {-(-asked // 64) * 64}ul\n",
        *(
            f"static const unsigned char {name}_bytes[] = {_array(data)};"
            for name, data in inputs.stored.items()
        ),
    ]
    for each in operation.outputs:
        lines += [
            f"static const double {each.name}_want[] = {_array(want[each.name])};",
            f"static const double {each.name}_bound[] = "
            f"{_array(np.broadcast_to(bound[each.name], want[each.name].shape))};",
        ]
    lines += [_place(case), _decoders(), _MAIN, *_call(operation, case, inputs.scalars), "}"]
    return "\n".join(lines) + "\n"


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
    """The C function that lays an operand against an inaccessible page."""
    at = "page" if case.side == "start" else "page + room - n_bytes"
    return f"""
static void *place(const void *bytes, size_t n_bytes) {{
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    const size_t room = (n_bytes + page_size - 1) / page_size * page_size + page_size;
    char *memory = mmap(0, room + 2 * page_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *page = memory + page_size, *at = {at};
    memset(page, 0xFF, room);
    if (bytes)
        memcpy(at, bytes, n_bytes);
    mprotect(memory, page_size, PROT_NONE);
    mprotect(page + room, page_size, PROT_NONE);
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
                   const double *want, const double *bound, long n) {
    long n_wrong = 0, worst = -1;
    for (long i = 0; i < n; ++i)
        if (!(fabs(read(got, i) - want[i]) <= bound[i]) && (n_wrong++ == 0 ||
            fabs(read(got, i) - want[i]) > fabs(read(got, worst) - want[worst])))
            worst = i;
    if (n_wrong)
        printf("%s[%ld]: want %.9g, got %.9g, bound %.3g; %ld of %ld elements are wrong\\n", name,
               worst, want[worst], read(got, worst), bound[worst], n_wrong, n);
    return n_wrong != 0;
}"""


def _call(operation: Operation, case: Case, scalars: dict[str, float]) -> Iterator[str]:
    """The statements that place the operands, call the kernel and compare."""
    drawn = {each.name for each in operation.drawn}
    for each in operation.operands:
        n_bytes = each.format.n_bytes(each.shape(case.sizes))
        bytes_ = f"{each.name}_bytes" if each.name in drawn else "0"
        if case.in_place and each.in_place:
            yield f"    {_type(each)} {each.name} = ({_type(each)}){each.in_place};"
        else:
            yield f"    {_type(each)} {each.name} = place({bytes_}, {n_bytes});"
    arguments = [each.name for each in operation.operands]
    arguments += [f"(float){_number(scalars[each.name])}" for each in operation.scalars]
    arguments += [str(case.sizes[axis.name]) for axis in operation.axes]
    yield f'    kernel_{operation.name} *kernel = dlsym(library, "hotfire_{operation.name}");'
    yield f"    const hotfire_status status = kernel(&exec, {', '.join(arguments)});"
    yield '    if (status) {\n        printf("status %d\\n", (int)status);'
    yield "        return 1;\n    }"
    yield "    int wrong = 0;"
    for each in operation.outputs:
        n = int(np.prod(each.shape(case.sizes), dtype=np.int64))
        yield (
            f'    wrong |= compare("{each.name}", {each.name}, read_{each.dtype}, '
            f"{each.name}_want, {each.name}_bound, {n});"
        )
    yield '    puts(wrong ? "wrong" : "right");\n    return wrong;'


def _type(operand: Operand) -> str:
    return f"{operand.format.c_type} *"
