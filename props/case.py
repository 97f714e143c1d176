"""One case of one operation: a line of text that determines every byte of its operands."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hotfire.errors import InputError
from hotfire.props.fills import FILLS, fill
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import Operation, Values

SIDES = ("end", "start", "shifted")

FILES = ("file:", "exact:")
"""A fill of this beginning names a saved failure, whose bytes the operands are; the second if the
operation designed them.
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What to compute on.

    Args:
        sizes: each axis of the operation.
        scalars: each scalar of the operation.
        fill: how the inputs are drawn, a name of `fills.FILLS` or of the operation's own fills.
        seed: of the draw.
        side: which side of each operand touches the inaccessible page, or lies an element off it.
        in_place: whether the outputs lie on the inputs that the operation names.
        mistake: what is wrong with the call on purpose, as `mistakes.of` names it, or "".
    """

    sizes: Mapping[str, int]
    scalars: Mapping[str, float]
    fill: str = "normal"
    seed: int = 0
    side: str = "end"
    in_place: bool = False
    mistake: str = ""

    @property
    def is_designed(self) -> bool:
        """Whether the operation designed the inputs so that the result is exact."""
        return self.fill.startswith("exact")

    def __str__(self) -> str:
        words = {**self.sizes, **self.scalars, "fill": self.fill, "seed": self.seed}
        words |= {"side": self.side}
        text = ",".join(f"{name}={value}" for name, value in words.items())
        text += ",in_place" if self.in_place else ""
        return text + (f",mistake={self.mistake}" if self.mistake else "")

    __repr__ = __str__


@dataclass(frozen=True)
class Inputs:
    """A case's inputs in both forms.

    Args:
        stored: bytes as the kernel reads them.
        logical: what those bytes mean, float64, in the operand's shape.
        scalars: as passed to the kernel; each is an f32.
    """

    stored: dict[str, Bytes]
    logical: Values
    scalars: dict[str, float]


def draw_inputs(operation: Operation, case: Case) -> Inputs:
    """Draws the inputs. The same case gives the same bytes on every machine."""
    if case.fill.startswith(FILES):
        return _from_file(operation, case)
    rng = np.random.default_rng(case.seed)
    own = _own_values(operation, case, rng)
    generic = case.fill if case.fill in FILLS else "normal"
    stored = {
        each.name: each.format.encode(own[each.name])
        if each.name in own
        else fill(generic, rng, each, each.shape(case.sizes))
        for each in operation.drawn
    }
    single = {name: float(np.float32(own.get(name, value))) for name, value in case.scalars.items()}
    return Inputs(stored, decoded(operation, stored, case.sizes), single)


def draw_others(operation: Operation, case: Case) -> Inputs:
    """Inputs of the same sizes, with other contents and other scalars."""
    fill = "normal" if case.fill.startswith(FILES) else case.fill
    scalars = {
        each.name: next((s for s in each.samples if s != case.scalars[each.name]), each.samples[0])
        for each in operation.scalars
    }
    return draw_inputs(operation, replace(case, fill=fill, seed=case.seed ^ 1, scalars=scalars))


def _from_file(operation: Operation, case: Case) -> Inputs:
    """The bytes and scalars of a saved failure."""
    path = Path(case.fill.partition(":")[2])
    about, stored = saved(path)
    for each in operation.drawn:
        expected = each.format.n_bytes(each.shape(case.sizes))
        if each.name not in stored or stored[each.name].size != expected:
            raise InputError(f"{path} has no {each.name} of {expected} bytes, as the case says")
    scalars = {name: float(value) for name, value in json.loads(about["scalars"]).items()}
    return Inputs(stored, decoded(operation, stored, case.sizes), scalars)


def saved(path: Path) -> tuple[dict[str, str], dict[str, Bytes]]:
    """What a saved failure is about, and its operands' bytes.

    Raises:
        InputError: if it cannot be read, or is something else.
    """
    try:
        with np.load(path) as arrays:
            about = json.loads(str(arrays["_about"]))
            return about, {name: arrays[name] for name in arrays.files if name != "_about"}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a saved failure: {error}") from error


def _own_values(operation: Operation, case: Case, rng: np.random.Generator) -> Values:
    """What the operation draws itself under this fill."""
    sizes = dict(case.sizes)
    if case.fill == "exact":
        return operation.exact(rng, sizes)
    structure = operation.structure(rng, sizes) if operation.structure else {}
    own = operation.fills.get(case.fill)
    return structure | own(rng, sizes) if own else structure


def decoded(operation: Operation, stored: Mapping[str, Bytes], sizes: Mapping[str, int]) -> Values:
    """What the stored operands mean, each in its shape."""
    return {
        each.name: each.format.decode(stored[each.name], each.shape(sizes))
        for each in operation.drawn
    }


def parse(operation: Operation, text: str) -> Case:
    """The inverse of `str(case)`; whatever is left out takes its default.

    Raises:
        InputError: on a word that the operation does not know, or a value that does not fit.
    """
    case = Case(
        sizes={
            axis.name: 0 if axis.gap else max(axis.multiple_of, axis.least)
            for axis in operation.axes
        },
        scalars={scalar.name: scalar.samples[0] for scalar in operation.scalars},
    )
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        case = _with_word(operation, case, name.strip(), value.strip())
    operation.check_sizes(case.sizes)
    return case


def _with_word(operation: Operation, case: Case, name: str, value: str) -> Case:
    try:
        if name in case.sizes:
            return replace(case, sizes={**case.sizes, name: int(value)})
        if name in case.scalars:
            return replace(case, scalars={**case.scalars, name: float(value)})
        if name == "seed":
            return replace(case, seed=int(value))
        if name == "mistake":
            return replace(case, mistake=value)
        if name == "in_place":
            return replace(case, in_place=True)
        if name == "fill" and value.startswith(FILES):
            return replace(case, fill=value)
        if name == "fill" and value in (*FILLS, *operation.fills):
            return replace(case, fill=value)
        if name == "side" and value in SIDES:
            return replace(case, side=value)
    except ValueError as error:
        raise InputError(f"case: {name}={value}: {error}") from None
    known = [*case.sizes, *case.scalars, "fill", "seed", "side", "in_place", "mistake"]
    raise InputError(
        f"case: {name}={value} is not understood; {operation.name} knows {', '.join(known)}; "
        f"fills: {', '.join((*FILLS, *operation.fills))}; sides: {', '.join(SIDES)}"
    )
