"""All operations: every module of `ref/ops` names its own in `OPERATIONS`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from hotfire.errors import InputError
from hotfire.ref import ops
from hotfire.ref.operation import Operation


@cache
def operations() -> dict[str, Operation]:
    """Operations by name, sorted by name."""
    found: dict[str, Operation] = {}
    for module in iter_modules(ops.__path__):
        for operation in import_module(f"{ops.__name__}.{module.name}").OPERATIONS:
            if operation.name in found:
                raise InputError(f"operation {operation.name!r} is defined twice; rename one")
            found[operation.name] = operation
    return dict(sorted(found.items()))


def operation(name: str) -> Operation:
    """The operation of that name.

    Raises:
        InputError: if there is none.
    """
    try:
        return operations()[name]
    except KeyError:
        known = ", ".join(operations())
        raise InputError(f"operation {name!r} is not known; expected one of: {known}") from None
