"""pytest: each library of a `hotfire.toml` as one test, with `pytest --hotfire-abi`.

The test fails with the table of findings that gate, and the layouts of the records side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hotfire.abi.config import Library


class DriftError(Exception):
    """A mirror and its library differ. The text lists every finding that gates."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the switch: nothing is collected without it."""
    group = parser.getgroup("hotfire")
    group.addoption(
        "--hotfire-abi", action="store_true", help="check the libraries that hotfire.toml names"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ConfigFile | None:
    """A `hotfire.toml` is a file of tests."""
    from hotfire.abi.config import NAME

    if file_path.name != NAME or not parent.config.getoption("--hotfire-abi"):
        return None
    return ConfigFile.from_parent(parent, path=file_path)


class ConfigFile(pytest.File):
    """A `hotfire.toml`."""

    def collect(self) -> Iterator[LibraryItem]:
        """One test a library."""
        from hotfire.abi import config
        from hotfire.errors import InputError

        try:
            libraries = config.load(self.path)
        except InputError as error:
            raise self.CollectError(str(error)) from error
        for library in libraries:
            yield LibraryItem.from_parent(self, name=library.name, library=library)


class LibraryItem(pytest.Item):
    """One library with its mirrors."""

    def __init__(self, *, library: Library, **rest: Any) -> None:
        super().__init__(**rest)
        self.library = library

    def runtest(self) -> None:
        """Fails if a finding gates, or if nothing could be compared."""
        from hotfire.abi import project
        from hotfire.abi.build import table
        from hotfire.verdict import Status, combine

        shown: list[str] = []
        verdict = combine(self.name, project.check_library(self.library, show=shown.append))
        if verdict.status is Status.PASSED:
            return
        gating = [found for found in verdict.all_findings() if found.severity.gates]
        reasons = [part.reason for part in verdict.parts if part.reason]
        text = "\n\n".join([*shown, table(gating) if gating else "", *reasons])
        raise DriftError(f"{verdict.status}\n\n{text.strip()}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | Any:
        """The findings, without a traceback; of anything else, what pytest shows."""
        from hotfire.errors import HotfireError

        if isinstance(excinfo.value, DriftError | HotfireError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the report says that the test lies."""
        return self.path, 0, f"hotfire abi: {self.name}"
