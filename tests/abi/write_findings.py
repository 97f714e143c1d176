"""Writes fixtures/drift_findings.json: `python -m tests.abi.write_findings`; read the diff."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hotfire.abi.checks import compare
from hotfire.abi.readers import header

from .conftest import FIXTURES
from .drifts import BREAKING, HARMLESS
from .test_rules import line

HEAD = "#include <stdint.h>\n#include <stdbool.h>\n#include <stddef.h>\n"


def main() -> None:
    """Compares every pair and writes what was found."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "api.h"
        for kind, pair in {**BREAKING, **HARMLESS}.items():
            sides = []
            for text in pair[:2]:
                path.write_text(HEAD + text)
                sides.append(header.read(path))
            found[kind] = sorted(line(each) for each in compare(*sides))
    text = json.dumps(found, indent=2) + "\n"
    (FIXTURES / "drift_findings.json").write_text(text)


if __name__ == "__main__":
    main()
