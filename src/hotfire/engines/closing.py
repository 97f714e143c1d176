"""What every engine shares as a context manager."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Is closed at the end of a `with`; a subclass says how."""

    def close(self) -> None:
        """Gives everything back; closing twice is allowed."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
