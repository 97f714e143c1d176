"""Failures are kept, fail again from their bytes, and stand alone as C."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from hotfire import lib
from hotfire.errors import InputError
from hotfire.props.case import draw_inputs, parse
from hotfire.props.execute import Subject
from hotfire.props.export import calls_of, export, one_call
from hotfire.props.properties import property_named
from hotfire.props.replay import files, read
from hotfire.props.runner import Runner
from hotfire.props.search import kernels_of
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
        ("l2_norm", "n_rows=3,n_cols=5,x_gap=2,y_gap=4"),
        ("rope_partial", "n_tokens=3,n_heads=2,head_dim=6,n_rot=4,x_gap=2,y_gap=7,in_place"),
        ("softmax", "n_rows=0,n_cols=7"),
    ],
)
def test_every_format_can_be_exported(tmp_path, name, text):
    """The C decoders read what ours do: a healthy library is right."""
    op = operation(name)
    source = tmp_path / "case.c"
    source.write_text(export(op, one_call(op, parse(op, text)), "avx2", "a case"))
    program = tmp_path / "case"
    words = ["cc", "-std=gnu11", "-Wall", "-Werror", "-o", str(program), str(source), "-ldl", "-lm"]
    subprocess.run(words, check=True)
    done = subprocess.run(
        [str(program), str(lib.path())], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "right\n")


RELATIONS = {
    "chunks_are_invisible": ("gated_delta", "gated_delta_history_lost", "scalar"),
    "rollback_leaves_nothing": ("gated_delta", "gated_delta_rollback_ignored", "scalar"),
    "leftovers_are_never_read": (
        "attention_f32",
        "attention_f32_empty_split_unwritten",
        "avx2-fast",
    ),
    "neighbours_are_invisible": ("conv1d_causal", "conv1d_causal_neighbour_state", "avx2"),
}


@pytest.mark.parametrize("stated", RELATIONS)
def test_a_relations_calls_are_exported_in_order(tmp_path, stated):
    """Wrong in C with the fault, and right without it, also where only the order shows it."""
    name, mutant, variant = RELATIONS[stated]
    provider = f"hotfire-mutants:{mutant}"
    words = ("--provider", provider, "--variant", variant, "--property", stated)
    assert hotfire("props", "run", name, *words, cwd=tmp_path)[0] == 1
    (kept,) = files([tmp_path / "out/replay"])
    source, program = tmp_path / "failure.c", tmp_path / "failure"
    code, said = hotfire("props", "export", str(kept), "--output", str(source), cwd=tmp_path)
    assert code == 0, said
    words = ["cc", "-std=gnu11", "-Wall", "-Werror", "-o", str(program), str(source), "-ldl", "-lm"]
    subprocess.run(words, check=True)
    library = str(lib.path(lib.MUTANTS))
    for fault, expected in (([mutant], 1), ([], 0)):
        done = subprocess.run([str(program), library, *fault], capture_output=True, check=False)
        assert done.returncode == expected, done.stdout


def test_a_difference_of_calls_that_are_right_is_not_exported(tmp_path):
    """One clear message: splits that differ by a rounding are only seen side by side."""
    op = operation("attention_f32")
    with Runner("hotfire") as runner:
        (fast,) = kernels_of(runner, ["attention_f32"], "scalar-fast")
        promising = replace(fast, batch_invariant=True)
        stated = property_named("cuts_are_invisible")
        case = parse(
            op, "n_tokens=4,n_seqs=1,n_kv=300,n_kv_heads=1,n_groups=2,head_dim=8,n_splits=7"
        )
        with pytest.raises(InputError, match="each of which is right by itself"):
            calls_of(Subject(runner, promising, op), stated, case)


def test_what_is_no_saved_failure_is_refused(tmp_path):
    """In one line, with the path."""
    path = tmp_path / "other.npz"
    path.write_bytes(b"PK nothing")
    with pytest.raises(InputError, match="not a saved failure"):
        read(path)
    with pytest.raises(InputError, match="no saved failures"):
        files([])
