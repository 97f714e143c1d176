"""The provider `hotfire-threads:N`: our library on N threads, which split the smallest call too."""

from __future__ import annotations

from hotfire import lib
from hotfire.errors import InputError
from hotfire.props.provider import Provider
from hotfire.props.providers.native import offer


def provide(argument: str) -> Provider:
    """All kernels on so many threads, of the library that has mutants, all off."""
    if not argument.isdecimal() or not 1 <= int(argument) <= 1024:
        raise InputError(f"hotfire-threads:{argument}; expected a number of threads, 1 to 1024")
    return offer(f"hotfire-threads:{argument}", lib.load(lib.MUTANTS), int(argument))
