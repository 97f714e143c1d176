"""What a project's own CI runs: the pytest plugin, and the templates that ship."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotfire.cli import main

from .test_project import CONFIG, HEADER, MIRROR, NARROW

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "ci/templates"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "api.h").write_text(HEADER)
    (tmp_path / "mirror.py").write_text(MIRROR)
    (tmp_path / "hotfire.toml").write_text(CONFIG)
    return tmp_path


def run_pytest(folder: Path, *words: str) -> tuple[int, str]:
    """pytest in a process of its own, which finds the plugin by its entry point."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "hotfire.toml"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_plugin_runs_one_test_a_library(project: Path) -> None:
    """A right mirror passes."""
    code, said = run_pytest(project, "--hotfire-abi", "-v")
    assert code == 0, said
    assert "hotfire.toml::thing PASSED" in said


def test_plugin_shows_the_drift_without_a_traceback(project: Path) -> None:
    """A drifted mirror fails with the table and the layouts."""
    (project / "mirror.py").write_text(NARROW)
    code, said = run_pytest(project, "--hotfire-abi")
    assert code == 1
    assert "FIELD_WIDTH" in said
    assert "the library 8" in said
    assert "Traceback" not in said


def test_plugin_reports_a_bad_file_as_an_error(project: Path) -> None:
    """A mistake in the file is no pass."""
    (project / "hotfire.toml").write_text("[abi.libraries.x]\nheader = []")
    code, said = run_pytest(project, "--hotfire-abi")
    assert code not in (0, 5)
    assert "unknown key 'header'" in said


def test_plugin_is_silent_without_its_switch(project: Path) -> None:
    """Nobody gets tests that were not asked for."""
    code, said = run_pytest(project)
    assert "thing" not in said
    assert code != 1


def commands() -> list[tuple[str, str]]:
    """Every command line of ours in the templates."""
    found = []
    for path in sorted(TEMPLATES.iterdir()):
        for line in path.read_text().splitlines():
            match = re.search(r"(?:run|entry): (hotfire [^|]*)", line)
            if match:
                found.append((path.name, match[1].strip()))
    return found


@pytest.mark.parametrize(("template", "command"), commands())
@pytest.mark.parametrize(("mirror", "code"), [(MIRROR, 0), (NARROW, 1)])
def test_commands_of_the_templates_work(
    template: str,
    command: str,
    mirror: str,
    code: int,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each passes on a right mirror and fails on a drifted one."""
    (project / "mirror.py").write_text(mirror)
    monkeypatch.chdir(project)
    done = CliRunner().invoke(main, command.split()[1:])
    assert done.exit_code == code, f"{template}: {done.output}"


def test_there_are_templates() -> None:
    """A pre-commit hook and a workflow."""
    assert {name for name, _ in commands()} == {
        "pre-commit-config.yaml",
        "github-actions-abi.yml",
    }


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github"])
def test_every_format_tells_the_finding(
    form: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule and record are in whatever is printed."""
    (project / "mirror.py").write_text(NARROW)
    monkeypatch.chdir(project)
    done = CliRunner().invoke(main, ["abi", "check", "--format", form])
    assert done.exit_code == 1, done.output
    assert "FIELD_WIDTH" in done.output
    assert "s.b" in done.output
