"""A progress display on stderr, and an interruption that cannot get lost."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self

from rich import progress
from rich.console import Console


class Progress:
    """Counts steps towards a total: a bar on a terminal, silence elsewhere.

    While it is open, an interrupt raises `KeyboardInterrupt` as ever. Raised inside a callback of
    the garbage collector, Python drops it, so the next step raises it again.

    Args:
        total: how many steps there are.
    """

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        self._bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)
        self._interrupted = False

    def more(self, steps: int) -> None:
        """Adds steps to the total."""
        task = self._bar.tasks[self._task]
        self._bar.update(self._task, total=(task.total or 0) + steps)

    def step(self, what: str) -> None:
        """One more step, and what it is about.

        Raises:
            KeyboardInterrupt: if an interrupt came since it was opened.
        """
        if self._interrupted:
            raise KeyboardInterrupt
        self._bar.update(self._task, description=what, advance=1)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True
        raise KeyboardInterrupt

    def __enter__(self) -> Self:
        self._former = signal.signal(signal.SIGINT, self._interrupt)
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        signal.signal(signal.SIGINT, self._former)
