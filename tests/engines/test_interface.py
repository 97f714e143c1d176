"""The engine's C interface under attack: it refuses with a status and a reason, or it is right."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotfire import lib
from hotfire.ref.models import gguf_file, probe

from . import hostile

TINY = {"n_layers": 2, "interval": 2, "n_embd": 16, "n_ff": 32, "n_vocab": 16, "n_experts": 20}
DENSE = {**TINY, "n_experts": 0}


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Writes a tiny model; fields of the file can be replaced: name -> (type, value)."""
    folder = tmp_path_factory.mktemp("models")

    def written(name, sizes=TINY, dtype="f32", **fields):
        path = folder / f"{name}.gguf"
        config = probe.config(sizes)
        fields = {key.replace("__", "."): value for key, value in fields.items()}
        plain = gguf_file._fields

        def changed(*given):
            for kind, key, value in plain(*given):
                yield (fields[key][0], key, fields[key][1]) if key in fields else (kind, key, value)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gguf_file, "_fields", changed)
            gguf_file.write(path, config, probe.weights(config, 0), dtype)
        return path

    return written


@pytest.mark.parametrize("sizes", [TINY, DENSE], ids=["moe", "dense"])
@pytest.mark.parametrize("attack", hostile.ATTACKS, ids=lambda attack: attack.__name__)
def test_it_stands(write, attack, sizes):
    path = write(f"plain{sizes['n_experts']}", sizes)
    with hostile.opened(path) as raw:
        attack(raw)


LAYOUTS = {
    "no_recurrent_layer": {**DENSE, "interval": 1},
    "no_full_attention": {**DENSE, "interval": 4},
    "tied": {**DENSE, "tied": 1},
    "every_expert_used": {**TINY, "n_experts": 3, "n_experts_used": 3},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_going_back_everywhere(write, layout):
    """Whatever kinds of layers there are."""
    with hostile.opened(write(layout, LAYOUTS[layout], "f16")) as raw:
        hostile.going_back_everywhere(raw)


def remove(raw, seq, pos):
    return raw.c.hotfire_engine_seq_remove(raw.engine[0], seq, pos)


def test_a_decode_that_was_taken_back_costs_no_snapshot(write):
    """Drafts that are refused whole, again and again, do not use up how far back it can go."""
    with hostile.opened(write("dense", DENSE), n_snapshots=2) as raw:
        _, want = raw.decode({1: [1, 2, 3, 4, 5, 6]})
        raw.decode({0: [1, 2, 3]})
        for _ in range(5):
            raw.decode({0: [9, 9, 9]})
            assert remove(raw, 0, 3) == 0
        raw.decode({0: [4, 5]})
        assert remove(raw, 0, 2) == 0, raw.said()
        assert (raw.decode({0: [3, 4, 5, 6]})[1] == want[2:]).all()


def test_a_kernel_that_refuses_leaves_no_half_of_a_batch(write):
    """The planted fault: the second piece fails. The batch's sequences are removed, all of them."""
    library = lib.load(lib.MUTANTS)
    with hostile.opened(write("dense", DENSE), library) as raw:
        for seq in (0, 1, 2):
            raw.decode({seq: [1, 2]})
        try:
            assert library.lib.hotfire_mutant_select(b"engine_second_piece_fails")
            status, _ = raw.decode({0: [3, 4, 5, 6], 1: [3, 4]})
        finally:
            library.lib.hotfire_mutant_select(library.ffi.NULL)
        assert status == library.lib.HOTFIRE_STATUS_INTERNAL
        assert [raw.length(seq) for seq in (0, 1, 2)] == [0, 0, 2]


@pytest.mark.parametrize(
    "fields",
    [
        {"{arch}__attention__layer_norm_rms_epsilon": ("float64", 1e300)},
        {"{arch}__attention__layer_norm_rms_epsilon": ("float64", 1e-300)},
        {"{arch}__rope__freq_base": ("float64", 1e300)},
    ],
)  # fmt: skip
def test_numbers_that_f32_cannot_hold_are_refused_at_once(write, fields):
    """Not by the first decode, as a fault of the library."""
    with hostile.opened(write("dense", DENSE)) as raw:
        assert raw.open(write("odd", DENSE, **fields)) == hostile.INVALID
        assert "no positive number that f32 holds" in raw.said()


def test_a_state_of_another_model_is_refused(write):
    """Also where only a field tells them apart, and every tensor is the same."""
    other = write("turned", DENSE, **{"{arch}__rope__freq_base": ("float32", 1e4)})
    with hostile.opened(write("dense", DENSE)) as raw, hostile.opened(other) as turned:
        raw.decode({0: [1, 2]})
        saved = raw.save(0)
        assert turned.restore(0, saved) == hostile.INVALID
        assert "of another model" in turned.said()
        assert raw.restore(1, saved) == 0


def test_a_pipe_is_not_waited_for(tmp_path):
    """A path that is no file is refused, whatever else it is."""
    os.mkfifo(tmp_path / "pipe")
    script = (
        "import sys; from hotfire import lib\n"
        "loaded = lib.load()\n"
        "with lib.context(loaded, 0) as given:\n"
        "    model = loaded.ffi.new('hotfire_model **')\n"
        "    for path in sys.argv[1:]:\n"
        "        assert loaded.lib.hotfire_model_open(given.context, path.encode(), model) == 1\n"
    )
    paths = [tmp_path / "pipe", tmp_path, tmp_path / "nothing", "/dev/null"]
    subprocess.run([sys.executable, "-c", script, *map(str, paths)], check=True, timeout=60)


def test_a_long_path_leaves_room_for_the_reason(write):
    with hostile.opened(write("dense", DENSE)) as raw:
        assert raw.open("nowhere/" * 60) == hostile.INVALID
        assert raw.said().endswith("cannot be opened: No such file or directory")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")
def test_a_call_without_memory_does_nothing(write, tmp_path):
    """Each allocation of each call fails in turn; then the call succeeds, with the same bits."""
    core, source = lib.path(lib.CORE), Path(__file__).with_name("starved.cpp")
    include = Path(__file__).parents[2] / "native/include"
    words = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-rdynamic", "-I", include, source,
             core, f"-Wl,-rpath,{core.parent}", "-o", tmp_path / "starved"]  # fmt: skip
    subprocess.run(list(map(str, words)), check=True, timeout=120)
    for name, sizes in (("moe", TINY), ("dense", DENSE)):
        done = subprocess.run(
            [tmp_path / "starved", write(name, sizes)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        n_open, n_calls = (int(word) for word in done.stdout.split() if word.isdecimal())
        assert (n_open > 200, n_calls > 200) == (True, True)


FORKED = """
import os, sys
sys.path.insert(0, sys.argv[1])
import hostile
with hostile.opened(sys.argv[2], n_threads=2, n_ubatch=512, n_ctx=600, n_batch=600) as raw:
    raw.decode({0: [1] * 500})
    child = os.fork()
    if child == 0:  # the child's own model, on the parent's context
        status = raw.open(sys.argv[2]) or raw.create()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""


def test_a_context_with_threads_is_refused_after_a_fork(write):
    subprocess.run(
        [sys.executable, "-c", FORKED, Path(__file__).parent, write("dense", DENSE)],
        check=True, timeout=60,
    )  # fmt: skip
