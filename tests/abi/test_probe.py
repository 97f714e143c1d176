"""The C compiler as arbiter: it confirms what is true, and not what is made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotfire.abi import check, probe
from hotfire.abi.checks import compare
from hotfire.abi.readers import header
from hotfire.abi.sources import Reading
from hotfire.errors import InputError
from hotfire.verdict import Finding

from .drifts import BREAKING

HEAD = "#include <stdint.h>\n#include <stdbool.h>\n#include <stddef.h>\n"
MIRROR = "import ctypes\nclass s(ctypes.Structure): _fields_ = [('a', ctypes.c_int)]\n"


def confirmed(kind: str, folder: Path) -> tuple[list[Finding], dict[int, bool]]:
    sides = []
    for version, text in zip(("v1", "v2"), BREAKING[kind][:2], strict=True):
        path = folder / version / "lib.h"
        path.parent.mkdir()
        path.write_text(HEAD + text)
        sides.append(header.read(path))
    found = compare(*sides)
    return found, probe.confirm(found, *sides, [folder / "v2/lib.h"], Reading())


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bool]]:
    """For each kind of drift the findings that the compiler was asked about, and its answers."""
    everything = {}
    for kind in BREAKING:
        found, answers = confirmed(kind, tmp_path_factory.mktemp(kind))
        everything[kind] = {found[at].message: right for at, right in answers.items()}
    return everything


def test_compiler_agrees_with_every_kind_of_drift(answers: dict[str, dict[str, bool]]) -> None:
    """Whatever can be asked in C about a finding that gates is so."""
    wrong = [text for said in answers.values() for text, right in said.items() if not right]
    assert wrong == []


def test_most_kinds_can_be_asked(answers: dict[str, dict[str, bool]]) -> None:
    """The arbiter does not pass by having nothing to say."""
    assert sum(map(bool, answers.values())) >= 0.7 * len(BREAKING)


def test_made_up_finding_is_not_confirmed(tmp_path: Path) -> None:
    """A finding with a wrong number is refused."""
    path = tmp_path / "lib.h"
    path.write_text("struct s { int a; int b; };")
    before = tmp_path / "before.h"
    before.write_text("struct s { int a; };")
    sides = header.read(before), header.read(path)
    (size,) = (found for found in compare(*sides) if found.rule == "RECORD_SIZE")
    wrong = replace(size, subject={**size.subject, "library": "12"})
    assert probe.confirm([size, wrong], *sides, [path], Reading()) == {0: True, 1: False}


def test_verdict_is_mistrusted_where_the_compiler_disagrees(tmp_path: Path) -> None:
    """A compiler with other defines than the reader had: the finding stays, the trust goes."""
    (tmp_path / "lib.h").write_text(
        "#ifdef WIDE\nstruct s { long a; };\n#else\nstruct s { int a; };\n#endif"
    )
    (tmp_path / "mirror.py").write_text(MIRROR)
    compiler = tmp_path / "cc-without-defines"
    compiler.write_text(
        '#!/bin/sh\nfor word; do shift; case $word in -D*) ;; *) set -- "$@" "$word";; esac; done\n'
        'exec cc "$@"\n'
    )
    compiler.chmod(0o755)

    def verdict(name: str) -> str:
        options = check.Options(confirm=name)
        mirrors = [f"ctypes:{tmp_path / 'mirror.py'}"]
        return check.check(
            [tmp_path / "lib.h"], mirrors, Reading(defines=("WIDE",)), options
        ).status

    assert verdict("cc") == "failed"
    assert verdict(str(compiler)) == "mistrusted"


def test_compiler_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    """Named, not a traceback."""
    path = tmp_path / "lib.h"
    path.write_text("struct s { int a; };")
    manifest = header.read(path)
    with pytest.raises(InputError, match="expected a C compiler"):
        probe.confirm([], manifest, manifest, [path], Reading(), "/no/such/cc")
