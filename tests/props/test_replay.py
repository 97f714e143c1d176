"""Failures are kept, fail again from their bytes, and stand alone as C."""

import json
import subprocess
import sys

import numpy as np
import pytest

from hotfire import lib
from hotfire.errors import InputError
from hotfire.props.case import draw_inputs, parse
from hotfire.props.export import export
from hotfire.props.replay import files, read
from hotfire.ref.registry import operation


def hotfire(*words, cwd):
    """Runs the command line in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "hotfire", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a run on a mutant left its failures."""
    cwd = tmp_path_factory.mktemp("replay")
    mutant = "hotfire-mutants:rms_norm_weight_shifted"
    words = ("props", "run", "rms_norm", "--provider", mutant, "--variant", "scalar")
    assert hotfire(*words, cwd=cwd)[0] == 1
    return cwd


def test_a_failure_is_kept_and_fails_again(folder):
    """From its bytes, whatever the way of drawing has become."""
    code, said = hotfire("props", "replay", cwd=folder)
    assert code == 1
    assert "fill=file:" in said
    assert "fill=exact:" in said
    kept = read(files([folder / "out/replay"])[0])
    op = operation("rms_norm")
    with np.load(kept.path) as arrays:
        stored = draw_inputs(op, parse(op, kept.case)).stored
        assert np.array_equal(stored["x"], arrays["x"])
        assert "rms_norm" in json.loads(str(arrays["_about"]))["operation"]


def test_an_exported_failure_is_wrong_in_c_and_right_without_the_fault(folder):
    """Compiled on its own, against the library with the mutant and without."""
    source = folder / "failure.c"
    kept = next(each for each in files([folder / "out/replay"]) if "exact" in each.name)
    code, said = hotfire("props", "export", str(kept), "--output", str(source), cwd=folder)
    assert code == 0, said
    program = folder / "failure"
    words = ["cc", "-std=gnu11", "-Wall", "-Werror", "-o", str(program), str(source), "-ldl", "-lm"]
    subprocess.run(words, check=True)
    library = str(lib.path(lib.MUTANTS))
    for mutant, expected in ((["rms_norm_weight_shifted"], 1), ([], 0)):
        done = subprocess.run([str(program), library, *mutant], capture_output=True, check=False)
        assert done.returncode == expected, done.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("matvec_q4_0", "n_rows=3,n_cols=64,seed=4"),
        ("matvec_bf16", "n_rows=2,n_cols=5,fill=wide,side=start"),
        ("quantize_q8_0", "n_rows=2,n_cols=32,fill=ties"),
        ("softmax", "n_rows=2,n_cols=7,in_place"),
        ("softmax", "n_rows=0,n_cols=7"),
    ],
)
def test_every_format_can_be_exported(tmp_path, name, text):
    """The C decoders read what ours do: a healthy library is right."""
    op = operation(name)
    source = tmp_path / "case.c"
    source.write_text(export(op, parse(op, text), "avx2", "a case"))
    program = tmp_path / "case"
    words = ["cc", "-std=gnu11", "-Wall", "-Werror", "-o", str(program), str(source), "-ldl", "-lm"]
    subprocess.run(words, check=True)
    done = subprocess.run(
        [str(program), str(lib.path())], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "right\n")


def test_what_is_no_saved_failure_is_refused(tmp_path):
    """In one line, with the path."""
    path = tmp_path / "other.npz"
    path.write_bytes(b"PK nothing")
    with pytest.raises(InputError, match="not a saved failure"):
        read(path)
    with pytest.raises(InputError, match="no saved failures"):
        files([])
