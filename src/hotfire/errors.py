"""Every exception that hotfire raises on purpose.

A failed check is not an exception: it is a `Verdict`. These are for input that cannot be
used, and the command line turns each into one message and exit code 2.
"""

from __future__ import annotations


class HotfireError(Exception):
    """Base of all errors. The message says what was expected, what came and what to do."""

    exit_code = 2


class InputError(HotfireError):
    """A file, name or option cannot be used. Correct what the message names and run again."""


class ShapeError(InputError):
    """A shape or dtype does not fit the operation. Compare it with the operation's docstring."""


class LayoutDriftError(HotfireError):
    """A mirror and the header differ. Change the side that is wrong; the table lists all."""


class StaleLibraryError(HotfireError):
    """The loaded library was built from another header than this package. Build it again."""


class LibraryError(HotfireError):
    """A native function answered with an error status; the message has the library's words."""


class WorkerError(HotfireError):
    """The process that runs kernels failed, through no fault of a kernel."""
