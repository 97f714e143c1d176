"""Writes the kernels' C header and the cffi declarations from the operations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from hotfire.ref.formats import FORMATS
from hotfire.ref.operation import Axis, Operand, Operation
from hotfire.ref.registry import operations

_HEAD = """\
/*
 * hotfire_kernels.h: the kernels. Written from the specs in ref/ops by `hotfire abi header`;
 * change those, not this file.
 *
 * The contracts on status, memory, alignment and aliasing are in hotfire.h. Shapes are in
 * brackets, outermost axis first, rows contiguous; a quantised row is n / 32 blocks.
 */
#ifndef HOTFIRE_KERNELS_H
#define HOTFIRE_KERNELS_H

#include "hotfire.h"

#ifdef __cplusplus
extern "C" {
#endif
"""

_TAIL = """\
#ifdef __cplusplus
}
#endif

#endif
"""


def kernel_header() -> str:
    """The whole text of `native/include/hotfire_kernels.h`."""
    parts = [_HEAD]
    parts += [f"{declaration}\n" for declaration in _format_declarations()]
    parts += [f"{_comment(op)}\nHOTFIRE_API {prototype(op)}\n" for op in operations().values()]
    return "\n".join([*parts, _TAIL])


def kernel_cdef() -> str:
    """The same declarations as cffi reads them: no comments, no attributes."""
    return "\n".join([*_format_declarations(), *map(prototype, operations().values())]) + "\n"


def prototype(operation: Operation) -> str:
    """The C prototype: exec, inputs, outputs, scalars, sizes."""
    arguments = ["const hotfire_exec *exec"]
    arguments += [f"const {_pointer(operand)}" for operand in operation.inputs]
    arguments += [_pointer(operand) for operand in operation.outputs]
    arguments += [f"float {scalar.name}" for scalar in operation.scalars]
    arguments += [f"int64_t {argument(axis)}" for axis in operation.axes]
    head = f"hotfire_status hotfire_{operation.name}("
    return head + f",\n{' ' * 4}".join(arguments) + ");"


def argument(axis: Axis) -> str:
    """The axis's name in C: a gap between rows is told as the stride from one to the next."""
    return f"{axis.gap}_stride" if axis.gap else axis.name


def _pointer(operand: Operand) -> str:
    return f"{operand.format.c_type} *{operand.name}"


def _format_declarations() -> Iterator[str]:
    return (fmt.c_declaration for fmt in FORMATS.values() if fmt.c_declaration)


def _comment(operation: Operation) -> str:
    lines = [f"hotfire_{operation.name}() : " + operation.doc]
    for operand in operation.operands:
        shape = ", ".join(operand.axes)
        place = f"; in place over {operand.in_place}" if operand.in_place else ""
        place += "; updated" if operand.updated else ""
        lines.append(f"{operand.name}: [{shape}] {operand.dtype}, {operand.doc}{place}.")
    lines += [f"{scalar.name}: {scalar.doc}." for scalar in operation.scalars]
    for axis in operation.axes:
        least = f">= {operation.operand(axis.gap).axes[-1]}" if axis.gap else ""
        lines.append(f"{argument(axis)}: {axis.doc}, {least or operation.range_of(axis)}.")
    if operation.workspace:
        lines.append(f"workspace: {operation.workspace} bytes.")
    if operation.fast_bound:
        lines.append("Differs under HOTFIRE_EXEC_FAST.")
    first, *rest = "\n".join(lines).split("\n")
    return "\n".join([f"/*! {first}", *(f" *  {line}" for line in rest)]) + "\n */"


def main(arguments: list[str] | None = None) -> None:
    """Build step: `--check HEADER` compares a committed header, `--cdef FILE` writes the cdef."""
    parser = argparse.ArgumentParser(prog="hotfire.ref.c_header")
    parser.add_argument("--check", type=Path, required=True)
    parser.add_argument("--cdef", type=Path, required=True)
    options = parser.parse_args(arguments)
    committed = options.check.read_text(encoding="utf-8")
    if committed != kernel_header():
        lines = unified_diff(
            committed.splitlines(), kernel_header().splitlines(), "committed", "specs", lineterm=""
        )
        sys.exit(
            f"{options.check} is not what the specs in ref/ops say; run `hotfire abi header` "
            "and commit it:\n" + "\n".join(lines)
        )
    options.cdef.write_text(kernel_cdef(), encoding="utf-8")


if __name__ == "__main__":
    main()
