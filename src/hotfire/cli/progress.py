"""A progress display on stderr: a bar on a terminal, silence elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich import progress
from rich.console import Console


class Progress:
    """Counts steps towards a total.

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

    def more(self, steps: int) -> None:
        """Adds steps to the total."""
        task = self._bar.tasks[self._task]
        self._bar.update(self._task, total=(task.total or 0) + steps)

    def step(self, what: str) -> None:
        """One more step, and what it is about."""
        self._bar.update(self._task, description=what, advance=1)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
