"""Whether two engines run one model, as far as both can tell."""

from __future__ import annotations

from hotfire.engines.protocol import Description
from hotfire.errors import InputError

MAX_LISTED = 3


def refuse_others(one: Description, other: Description) -> None:
    """Refuses engines whose models differ in a size or a constant. Weights may differ: they may be
    stored in fewer bits, and a difference is then what is to be measured.

    Raises:
        InputError: naming the first differences, and both values of each.
    """
    mine, theirs = ({"n_vocab": each.n_vocab, **each.model} for each in (one, other))
    differing = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    if not differing:
        return
    listed = "; ".join(
        f"{name} is {mine[name]} and {theirs[name]}" for name in differing[:MAX_LISTED]
    )
    more = len(differing) - MAX_LISTED
    raise InputError(
        f"{one.name} and {other.name} are not the same model: {listed}"
        f"{f'; and {more} more' if more > 0 else ''}; give both the same MODEL and sizes"
    )
