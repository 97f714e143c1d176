"""The provider `hotfire-mutants:NAME`: our library with one fault switched on, or none.
`hotfire-mutants:NAME@PATH` takes it from elsewhere, as from a build under a sanitizer.

That library splits even the smallest call over its threads, of which there are three, so that every
search here, and the healthy one above all, also searches the seams between the parts of a call.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hotfire import lib
from hotfire.errors import InputError
from hotfire.props.mutants import mutants
from hotfire.props.provider import Provider
from hotfire.props.providers.native import offer

N_THREADS = 3


def provide(argument: str) -> Provider:
    """The library with that mutant; without a name, its healthy self."""
    mutant, _, path = argument.partition("@")
    library = lib.load_path(Path(path)) if path else lib.load(lib.MUTANTS)

    def select(name: str) -> None:
        if not library.lib.hotfire_mutant_select(name.encode()):
            known = ", ".join(mutant.name for mutant in mutants())
            raise InputError(f"mutant {name!r} is not known; expected one of: {known}")

    select(mutant)
    name = f"hotfire-mutants:{argument}" if argument else "hotfire-mutants"
    return replace(offer(name, library, N_THREADS), select=select)
