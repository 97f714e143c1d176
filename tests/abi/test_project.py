"""`hotfire.toml`: targets, mirrors, waivers, a baseline, committed manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotfire.abi import compile_commands, config
from hotfire.abi.sources import Reading
from hotfire.cli import main
from hotfire.errors import InputError

HEADER = "#include <stdint.h>\nstruct s { uint32_t a; uint16_t b; };\nvoid use(struct s *s);\n"
MIRROR = """
import ctypes
class s(ctypes.Structure):
    _fields_ = [("a", ctypes.c_uint32), ("b", ctypes.c_uint16)]
lib = ctypes.CDLL("libs.so")
lib.use.argtypes, lib.use.restype = [ctypes.POINTER(s)], None
"""
NARROW = MIRROR.replace("c_uint16", "c_uint8")
CONFIG = """
[abi.libraries.thing]
headers = ["api.h"]
mirrors = ["ctypes:mirror.py"]
"""
WAIVER = """
[[abi.libraries.thing.waivers]]
rule = "FIELD_WIDTH"
record = "s"
reason = "the upper byte is always zero"
expires = {day}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose mirror is right."""
    (tmp_path / "api.h").write_text(HEADER)
    (tmp_path / "mirror.py").write_text(MIRROR)
    (tmp_path / "hotfire.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> tuple[int, dict]:
    done = CliRunner().invoke(main, ["abi", "check", *words, "--format", "json"])
    tree = json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.output}
    findings = [f for part in tree.get("parts", ()) for f in part["findings"]]
    return done.exit_code, {**tree, "all": findings}


def test_project_passes_without_arguments(project: Path) -> None:
    """The file alone says what to check."""
    code, tree = run()
    assert (code, tree["verdict"]) == (0, "passed")


def test_drift_fails_the_project(project: Path) -> None:
    """A latent width gates until somebody waives it."""
    (project / "mirror.py").write_text(NARROW)
    code, tree = run()
    assert code == 1
    assert [(f["rule"], f["severity"]) for f in tree["all"]] == [("FIELD_WIDTH", "latent")]


@pytest.mark.parametrize(
    ("day", "code", "rule"), [("2999-01-01", 0, ""), ("2020-01-01", 1, "WAIVER_EXPIRED")]
)
def test_waiver_counts_until_its_day(project: Path, day: str, code: int, rule: str) -> None:
    """A waived finding is told but does not gate; after its day it gates again."""
    (project / "mirror.py").write_text(NARROW)
    (project / "hotfire.toml").write_text(CONFIG + WAIVER.format(day=day))
    got, tree = run()
    assert got == code
    assert any(f["rule"] == "FIELD_WIDTH" for f in tree["all"])
    assert not rule or any(f["rule"] == rule for f in tree["all"])


def test_waiver_that_nothing_matches_is_told(project: Path) -> None:
    """A waiver does not outlive what it waived unseen."""
    (project / "hotfire.toml").write_text(CONFIG + WAIVER.format(day="2999-01-01"))
    code, tree = run()
    assert code == 0
    assert [f["rule"] for f in tree["all"]] == ["WAIVER_UNUSED"]


def test_memory_corruption_cannot_be_waived(project: Path) -> None:
    """Only what is latent can; anything worse stays and says so."""
    (project / "mirror.py").write_text(MIRROR.replace(', ("b", ctypes.c_uint16)', ""))
    waiver = WAIVER.format(day="2999-01-01").replace("FIELD_WIDTH", "RECORD_SIZE")
    (project / "hotfire.toml").write_text(CONFIG + waiver)
    code, tree = run()
    assert code == 1
    severities = {f["rule"]: f["severity"] for f in tree["all"]}
    assert severities["RECORD_SIZE"] == "memory-unsafe"
    assert "WAIVER_REFUSED" in severities


def test_baseline_lets_only_what_is_new_gate(project: Path) -> None:
    """Known findings are recorded once; another one gates."""
    (project / "mirror.py").write_text(NARROW)
    (project / "hotfire.toml").write_text(CONFIG + 'baseline = "known.json"\n')
    assert run()[0] == 2
    assert run("--write-baseline")[0] == 0
    code, tree = run()
    assert (code, [f["severity"] for f in tree["all"]]) == (0, ["info"])
    assert run("--only-new")[1]["all"] == []
    (project / "api.h").write_text(
        HEADER.replace("void use(struct s *s)", "void use(struct s *s, int n)")
    )
    code, tree = run("--only-new")
    assert (code, [f["rule"] for f in tree["all"]]) == (1, ["FN_ARGC"])


def test_changed_manifest_is_a_readable_diff(project: Path) -> None:
    """A committed manifest for two targets; a changed header shows the changed line."""
    extra = 'manifest = "abi/thing.{target}.json"\ntargets = ["x86_64-linux", "wasm32-wasi"]\n'
    (project / "hotfire.toml").write_text(CONFIG + extra)
    assert run()[0] == 2
    assert run("--write-manifests")[0] == 0
    written = sorted(path.name for path in (project / "abi").iterdir())
    assert written == ["thing.wasm32-wasi.json", "thing.x86_64-linux.json"]
    assert run()[0] == 0
    (project / "api.h").write_text(HEADER.replace("uint16_t b", "uint32_t b"))
    code, tree = run()
    changed = [f for f in tree["all"] if f["rule"] == "MANIFEST_CHANGED"]
    assert code == 1
    assert len(changed) == 2
    assert '-        {"name": "b", "type": "u16", "offset": 4}' in changed[0]["message"]
    assert '+        {"name": "b", "type": "u32", "offset": 4}' in changed[0]["message"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected at least one table"),
        ("[abi", "is not TOML"),
        ("[abi.libraries.x]\nheader = ['a.h']", "unknown key 'header'"),
        ("[abi.libraries.x]\nheaders = 'a.h'", "expected headers to be a list"),
        ("[abi.libraries.x]\nheaders = [1]", "expected headers to hold strings"),
        ("[[abi.libraries.x.waivers]]\nrule = 'R'", "a reason and a date"),
        ("[[abi.libraries.x.waivers]]\nreason = 'r'\nexpires = 2999-01-01", "to name a rule"),
    ],
)
def test_bad_file_is_one_error(text: str, said: str, tmp_path: Path) -> None:
    """Each mistake is named."""
    path = tmp_path / "hotfire.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        config.load(path)


def commands(folder: Path, *entries: tuple[str, str]) -> Path:
    path = folder / "compile_commands.json"
    tree = [{"directory": str(folder), "file": f, "command": c} for f, c in entries]
    path.write_text(json.dumps(tree))
    return path


def test_defines_come_from_the_build(tmp_path: Path) -> None:
    """Defines, folders and target of the named source, whether written as one word or two."""
    (tmp_path / "inc").mkdir()
    path = commands(
        tmp_path,
        ("a.cpp", "g++ -DUSE_GPU -D N=4 -I inc --target=aarch64-linux-gnu -c a.cpp"),
        ("b.cpp", "g++ -c b.cpp"),
    )
    found = compile_commands.apply(Reading(defines=("X",)), path, "a.cpp")
    assert found.defines == ("X", "USE_GPU", "N=4")
    assert found.include == (tmp_path / "inc",)
    assert found.target == "aarch64-linux-gnu"


def test_sources_that_disagree_must_be_named(tmp_path: Path) -> None:
    """Two builds of one header cannot both be meant."""
    path = commands(tmp_path, ("a.cpp", "g++ -DUSE_GPU -c a.cpp"), ("b.cpp", "g++ -c b.cpp"))
    with pytest.raises(InputError, match="different defines"):
        compile_commands.apply(Reading(), path)
    with pytest.raises(InputError, match="ends with"):
        compile_commands.apply(Reading(), path, "c.cpp")


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"file": 1}]'])
def test_damaged_compile_commands_is_one_error(text: str, tmp_path: Path) -> None:
    """Anything but a list of compilations is refused."""
    path = tmp_path / "compile_commands.json"
    path.write_text(text)
    with pytest.raises(InputError):
        compile_commands.apply(Reading(), path)


def test_layout_follows_the_builds_defines(project: Path) -> None:
    """The same mirror passes or fails by what the library is built with."""
    (project / "api.h").write_text(
        HEADER.replace("uint16_t b", "\n#ifdef WIDE\nuint64_t b\n#else\nuint16_t b\n#endif\n")
    )
    words = ["--header", "api.h", "--mirror", "ctypes:mirror.py", "--compile-commands"]
    assert run(*words, str(commands(project, ("a.c", "cc -c a.c"))))[0] == 0
    assert run(*words, str(commands(project, ("a.c", "cc -DWIDE -c a.c"))))[0] == 1


def test_target_that_contradicts_the_build_is_refused(tmp_path: Path) -> None:
    """One of the two must be wrong."""
    path = commands(tmp_path, ("a.c", "cc --target=aarch64-linux-gnu -c a.c"))
    same = compile_commands.apply(Reading(target="arm64-linux"), path)
    assert same.target == "arm64-linux"
    with pytest.raises(InputError, match="contradicts"):
        compile_commands.apply(Reading(target="x86_64-linux"), path)
