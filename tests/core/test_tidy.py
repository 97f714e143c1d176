"""House rules as tests: format, lint, types, who imports whom, how long a module may be."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hotfire

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("abi", "ref", "props", "soak", "crosstalk")
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60

# What a part may import of the others, itself aside; `cli` and `report` may import all.
MAY_IMPORT = {
    "errors": set(),
    "verdict": {"errors"},
    "evidence": {"errors"},
    "ref": {"errors", "verdict", "evidence"},
    "abi": {"errors", "verdict", "evidence", "ref"},
    "lib": {"errors", "verdict", "evidence", "ref", "abi"},
    "device": {"errors"},
    "engines": {"errors", "verdict", "evidence", "ref", "abi", "lib"},
    "props": {"errors", "verdict", "evidence", "ref", "abi", "lib", "device"},
    "crosstalk": {"errors", "verdict", "evidence"},
    "soak": {"errors", "verdict", "evidence"},
}


def sources():
    """Every Python file of the package, once."""
    own = [path for path in (ROOT / "src/hotfire").rglob("*.py") if not _through_link(path)]
    return own + [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]


def _through_link(path):
    return any(
        (ROOT / "src/hotfire" / name).is_symlink() and name in path.parts for name in PACKAGES
    )


def part_of(path):
    """The part of the package that a file belongs to."""
    relative = path.relative_to(ROOT)
    inside = relative.parts[2:] if relative.parts[0] == "src" else relative.parts
    return inside[0].removesuffix(".py")


def imports_of(path):
    """The parts of hotfire that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "hotfire":
                names = [f"hotfire.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("hotfire."):
                yield name.split(".")[1]


def run(*words):
    """Runs a tool of the environment in the checkout."""
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_format():
    """Ruff's formatter has nothing to change."""
    run("ruff", "format", "--check", ".")


def test_lint():
    """Ruff finds nothing."""
    run("ruff", "check", ".")


def test_types():
    """Mypy, strict, finds nothing."""
    run("mypy")


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_rule(path):
    """No part imports one that is not below it."""
    part = part_of(path)
    if part in ("cli", "report", "__init__", "__main__"):
        return
    wrong = set(imports_of(path)) - MAY_IMPORT[part] - {part, "__version__"}
    assert not wrong, f"{part} may not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_are_short(path):
    """The limits only ever go down."""
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


def test_loading_a_spec_imports_neither_hypothesis_nor_torch():
    """The build loads the specs in an environment that has neither."""
    code = (
        "import sys; from hotfire.ref.registry import operations; operations(); "
        "sys.exit(bool({'hypothesis', 'torch', 'click', 'rich'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_is_told_once():
    """The package and its metadata agree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == hotfire.__version__


def test_the_import_rule_rings():
    """The rule's own canary: a module of `ref` that imports `props` is seen."""
    tree = "from hotfire.props import case\nimport hotfire.lib\nfrom hotfire import abi\n"
    path = Path(__file__).parent / "canary.py"
    path.write_text(tree)
    try:
        assert set(imports_of(path)) == {"props", "lib", "abi"}
    finally:
        path.unlink()
