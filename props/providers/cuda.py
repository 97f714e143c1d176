"""The provider `cuda:FILE.cubin`: kernels of a cubin, or of a folder of them, on an NVIDIA GPU."""

from __future__ import annotations

from hotfire.props.provider import Provider
from hotfire.props.providers.code_object import offer


def provide(argument: str) -> Provider:
    """The cubin's kernels; unavailable, with the reason, where there is no device."""
    return offer("cuda", argument)
