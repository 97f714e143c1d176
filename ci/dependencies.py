"""Prints the requirements of hotfire and of one of its extras, a line each.

So that they can be installed before the package is built, and once only.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]


def wanted(extra: str) -> list[str]:
    """The requirements of an extra, with those of the extras of ours that it names."""
    found: list[str] = []
    for line in extras[extra]:
        own = line.startswith("hotfire[")
        found += wanted(line.removeprefix("hotfire[").removesuffix("]")) if own else [line]
    return found


print("\n".join(project["dependencies"] + wanted(sys.argv[1])))
