"""What every command that ends in a verdict has in common: formats, exit codes, `--twice`."""

from __future__ import annotations

import functools
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from hotfire.errors import HotfireError
from hotfire.verdict import Finding, Severity, Status, Verdict, worst

Renderer = Callable[[Verdict], str]


def command_line() -> str:
    """The command as it was typed, quoted for a shell: what a verdict's `reproduce` says."""
    return shlex.join(["hotfire", *sys.argv[1:]])


def verdict_command(function: Callable[..., Verdict]) -> Callable[..., None]:
    """Turns a function that returns a verdict into the body of a click command.

    Adds `--format`, `--output`, `--allow` and `--twice`, prints the verdict last, and exits as
    the contract says. A `HotfireError` becomes one line on stderr and its exit code.
    """

    @click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json", "sarif", "junit", "github", "html"]),
        default="text",
        show_default=True,
        help="How the verdict is printed.",
    )
    @click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write there.")
    @click.option(
        "--allow",
        multiple=True,
        type=click.Choice(["unsettled", "mistrusted", "skipped"]),
        help="Exit 0 on this outcome too.",
    )
    @click.option("--twice", is_flag=True, help="Run again in a fresh process and compare.")
    @functools.wraps(function)
    def run(
        form: str, output: Path | None, allow: tuple[str, ...], twice: bool, **rest: Any
    ) -> None:
        try:
            verdict = function(**rest)
            if twice:
                verdict = _again(verdict)
            _write(_render(verdict, form), output)
        except HotfireError as error:
            fail(error)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(130)
        sys.exit(exit_code(verdict, allow))

    return run


def exit_code(verdict: Verdict, allow: tuple[str, ...] = ()) -> int:
    """The verdict's exit code, 0 for an outcome that the caller allows, 130 if interrupted."""
    if verdict.scope.get("interrupted"):
        return 130
    return 0 if verdict.status.value in allow else verdict.status.exit_code


def fail(error: HotfireError) -> NoReturn:
    """Prints one error and exits with its code."""
    click.echo(f"hotfire: {error}", err=True)
    sys.exit(error.exit_code)


def _render(verdict: Verdict, form: str) -> str:
    from hotfire import report

    return report.render(verdict, form)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    from hotfire.report import write_whole

    write_whole(output, text)


def _again(first: Verdict) -> Verdict:
    """Runs the same command line in a fresh process and says where the two verdicts differ."""
    arguments = [word for word in sys.argv[1:] if word != "--twice"]
    done = subprocess.run(
        [sys.executable, "-m", "hotfire", *_without_output(arguments), "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        second = Verdict.from_json(json.loads(done.stdout))
    except (ValueError, KeyError):
        raise HotfireError(
            f"the second run gave no verdict (exit code {done.returncode}): "
            f"{done.stderr.strip()[-2000:]}"
        ) from None
    differences = _differences(first, second)
    status = worst([first.status, second.status, *([Status.MISTRUSTED] if differences else [])])
    return replace(
        first,
        status=status,
        findings=first.findings + differences,
        scope={**first.scope, "runs": 2},
        reason=first.reason or ("two runs disagree" if differences else ""),
    )


def _without_output(arguments: list[str]) -> list[str]:
    """The command line without where and how to print, so that the second run prints JSON."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in ("--output", "--format"):
            next(words, None)
        elif not word.startswith(("--output=", "--format=")):
            kept.append(word)
    return kept


def _differences(first: Verdict, second: Verdict) -> tuple[Finding, ...]:
    """One info finding for each thing that two runs did not agree on; clocks do not count."""
    said: list[str] = []
    if first.status is not second.status:
        said.append(f"verdict: {first.status} then {second.status}")
    mine = {json.dumps(found.to_json(), sort_keys=True) for found in first.all_findings()}
    theirs = {json.dumps(found.to_json(), sort_keys=True) for found in second.all_findings()}
    said += [f"only in the first run: {text}" for text in sorted(mine - theirs)]
    said += [f"only in the second run: {text}" for text in sorted(theirs - mine)]
    for name in sorted({*first.measurements, *second.measurements}):
        one, two = first.measurements.get(name), second.measurements.get(name)
        if one != two and not name.endswith("seconds"):
            said.append(f"{name}: {one} then {two}")
    return tuple(
        Finding(
            rule="RUNS_DISAGREE",
            severity=Severity.INFO,
            message=text,
            remedy="find what the result depends on besides the seed and the commit",
        )
        for text in said
    )
