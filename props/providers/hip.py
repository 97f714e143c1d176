"""The provider `hip:FILE.co`: kernels of an AMD code object, or of a folder, on an AMD GPU."""

from __future__ import annotations

from hotfire.props.provider import Provider
from hotfire.props.providers.code_object import offer


def provide(argument: str) -> Provider:
    """The code object's kernels; unavailable, with the reason, where there is no device."""
    return offer("hip", argument)
