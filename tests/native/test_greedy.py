"""The C interface from plain C: `native/tools/greedy.c` against the adapter."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from hotfire import lib
from hotfire.engines import Batch, Span, open_engine
from hotfire.ref.models import gguf_file, probe

ROOT = Path(__file__).resolve().parents[2]
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope="module")
def greedy(tmp_path_factory):
    """The program, as a stranger would compile it, and a model."""
    folder = tmp_path_factory.mktemp("greedy")
    library = lib.path(lib.CORE)
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
         f"-I{ROOT / 'native/include'}", str(ROOT / "native/tools/greedy.c"),
         f"-L{library.parent}", "-lhotfire_core", f"-Wl,-rpath,{library.parent}",
         "-o", str(folder / "greedy")],
        check=True,
    )  # fmt: skip
    config = probe.config({"n_layers": 4, "n_vocab": 128})
    gguf_file.write(folder / "m.gguf", config, probe.weights(config, 0), "f32")

    def run(*words):
        return subprocess.run(
            [folder / "greedy", *map(str, words)], capture_output=True, text=True, check=False
        )

    return run, folder / "m.gguf"


def test_gives_the_reference_s_tokens(greedy):
    """Those that float64 finds likeliest, by margins far above the bound."""
    run, path = greedy
    done = run(path, 12, *PROMPT)
    assert (done.returncode, done.stderr) == (0, "")
    got = [int(line) for line in done.stdout.split()]
    with open_engine(f"numpy:{path}") as engine:
        rows = engine.decode(Batch.of([Span(0, 0, [*PROMPT, *got[:-1]], "all")]))
    assert rows.argmax[len(PROMPT) - 1 :].tolist() == got
    top = np.sort(rows.logits, axis=1)
    assert (top[:, -1] - top[:, -2]).min() > 1e-3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.gguf", 1, 2], "cannot be opened"),
        (["MODEL", 1, 128], "128: expected a number of 0 to 127"),
        (["MODEL", "x", 1], "x: expected a number"),
        (["MODEL", 1], "usage:"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(greedy, words, says):
    run, path = greedy
    done = run(*(path if word == "MODEL" else word for word in words))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
