"""The provider `hotfire-mutants:NAME`: our library with one fault switched on, or none."""

from __future__ import annotations

from hotfire import lib
from hotfire.errors import InputError
from hotfire.props.mutants import mutants
from hotfire.props.provider import Provider
from hotfire.props.providers.native import offer


def provide(argument: str) -> Provider:
    """The library with that mutant; without a name, its healthy self."""
    library = lib.load(lib.MUTANTS)
    if argument and not library.lib.hotfire_mutant_select(argument.encode()):
        known = ", ".join(mutant.name for mutant in mutants())
        raise InputError(f"mutant {argument!r} is not known; expected one of: {known}")
    return offer(f"hotfire-mutants:{argument}" if argument else "hotfire-mutants", library)
