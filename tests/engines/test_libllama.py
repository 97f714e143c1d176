"""libllama as a subject: right where it says so, and a real fault of its own that `exact` finds.

Each run is a process of its own, as libllama may abort, and as another ggml may be loaded here.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotfire.engines import libllama_binding
from hotfire.errors import InputError, StaleLibraryError

pytestmark = pytest.mark.subjects
PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"
SMALL = "probe,n_layers=4,n_vocab=128"
MOE = f"{SMALL},n_experts=4"
SIZE = ("--prompts", "6", "--length", "150", "--generate", "4")


@pytest.fixture(scope="session")
def folder():
    """libllama v0.5.0, or the one that HOTFIRE_LIBLLAMA names."""
    if libllama_binding.VARIABLE in os.environ:
        return Path(os.environ[libllama_binding.VARIABLE])
    path = Path(__file__).parents[1] / "abi/subjects.py"
    spec = importlib.util.spec_from_file_location("subjects_of_abi", path)
    subjects = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subjects)
    return subjects.npm(PACKAGE, "linux-x64/lib") / "package/bins/linux-x64"


@pytest.fixture
def run(folder):
    """Runs Python with the library named; its standard output."""

    def call(*words):
        environment = {**os.environ, libllama_binding.VARIABLE: str(folder)}
        command = [sys.executable, *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return call


@pytest.fixture
def exact(run):
    def call(*words):
        done = run("-m", "hotfire", "exact", *words, *SIZE, "--format", "json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return call


@pytest.mark.parametrize("model", [SMALL, MOE])
def test_agrees_with_the_float64_model(exact, model):
    """At once, token by token and in chunks; the bound is more than twice the worst seen."""
    tree = exact(f"numpy:{model}", f"libllama:{model}", "--ubatch", "0,1,64")
    assert tree["verdict"] == "passed"
    assert all(0 < part["measurements"]["worst_of_bound"] < 0.5 for part in tree["parts"])
    assert all(part["measurements"]["n_flips"] == 0 for part in tree["parts"])


def test_without_snapshots_it_refuses_to_roll_back(exact):
    """So that everything else is right, and the rollback remains unproven."""
    walk = exact(f"numpy:{SMALL}", f"libllama:{SMALL},rollback=0", "--ubatch", "", "--walk")
    [part] = walk["parts"]
    assert part["verdict"] == "mistrusted"
    assert part["reason"].startswith("never walked: rollback to next;")
    assert not part["findings"]
    assert part["transitions"]["join"]


def test_finds_the_rollback_of_a_whole_batch(exact):
    """llama.cpp 26695 and 29117: with snapshots, removing all tokens of the last call, or more,
    is accepted and leaves another state.
    """
    tree = exact(f"numpy:{SMALL}", f"libllama:{SMALL},rollback=8", "--ubatch", "0", "--walk")
    whole, walk = tree["parts"]
    assert whole["verdict"] == "passed"
    [found] = walk["findings"]
    assert found["rule"].startswith("ROLLBACK_")


ROLLBACK = f"""
import json, numpy as np
from hotfire.engines import Batch, Span, open_engine
ids = np.random.default_rng(0).integers(0, 128, 40).tolist()
off = {{}}
with open_engine("libllama:{SMALL},rollback=8") as engine:
    def feed(pos, tokens):
        return engine.decode(Batch.of([Span(0, pos, tokens, "all")])).logits
    want = feed(0, ids)
    for back in (1, 4, 5, 6):
        engine.seq_remove(0)
        feed(0, ids[:20])
        feed(20, [7] * 5 if back > 4 else ids[20 : 25 - back] + [7] * back)
        assert engine.seq_remove(0, 25 - back)
        at = 25 - back
        off[back] = float(np.abs(feed(at, ids[at:30]) - want[at:30]).max())
print(json.dumps(off))
"""


def test_the_rollback_s_edge(run):
    """After a call of five tokens, going back four is right and going back five is not."""
    off = json.loads(run("-c", ROLLBACK).stdout)
    assert off["1"] < 1e-4
    assert off["4"] < 1e-4
    assert off["5"] > 1
    assert off["6"] > 1


EDGES = f"""
import json, numpy as np
from hotfire.engines import Batch, Span, open_engine
ids = np.random.default_rng(0).integers(0, 128, 300).tolist()
said = []
with open_engine("libllama:{SMALL},n_ctx=256,n_seqs=4") as engine:
    n = engine.description.n_ctx
    for past in (-1, 0, 1):
        for seq in range(4):
            engine.seq_remove(seq)
        engine.decode(Batch.of([Span(0, 0, ids[: n - 2])]))
        others = [Span(seq, 0, ids[:6]) for seq in (1, 2, 3)]
        rows = engine.decode(Batch.of([Span(0, n - 2, ids[n - 2 : n + past]), *others]))
        again = engine.decode(Batch.of(others)) if rows.status else rows
        said.append([int(rows.status), list(rows.full), again.logits[-3:].tolist()])
print(json.dumps(said))
"""


def test_context_exhaustion_is_a_status(run):
    """At n_ctx + 1 beside three others: a status, and the others are as if nothing had been."""
    below, at, beyond = json.loads(run("-c", EDGES).stdout)
    assert (below[0], at[0], beyond[0]) == (0, 0, 1)
    assert beyond[1] == [0]
    for one, other in ((below, at), (below, beyond)):
        worst = max(
            abs(a - b)
            for row, same in zip(one[2], other[2], strict=True)
            for a, b in zip(row, same, strict=True)
        )
        assert worst < 1e-4


def test_the_residual_stream_can_be_seen(run):
    code = f"""
import numpy as np
from hotfire.engines import Batch, Span, open_engine
rows = []
for target in ("numpy:{SMALL}", "libllama:{SMALL}"):
    with open_engine(target) as engine:
        rows.append(engine.decode(Batch.of([Span(0, 0, [1, 2, 3], "all")], hidden=True)).hidden)
print(rows[1].shape == (3, 5, 64) and np.abs(rows[0] - rows[1]).max() < 1e-4)
"""
    assert run("-c", code).stdout == "True\n"


WORDS = """
import json, sys
from pathlib import Path
import tokenizers
from hotfire.engines import libllama_binding
from hotfire.ref.models import gguf_file, probe, vocabulary
from hotfire.ref.models.tokenizer import Tokenizer

folder = Path(sys.argv[1])
inner, pre = tokenizers.Tokenizer(tokenizers.models.BPE()), tokenizers.pre_tokenizers
inner.normalizer = tokenizers.normalizers.NFC()
cut = pre.Split(tokenizers.Regex(vocabulary.PATTERN), behavior="isolated")
inner.pre_tokenizer = pre.Sequence([cut, pre.ByteLevel(add_prefix_space=False, use_regex=False)])
trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre.ByteLevel.alphabet())
inner.train_from_iterator(["the cat has hats and a cat's hat is that"] * 9, trainer)
inner.add_special_tokens(["<|im_end|>"])
inner.save(str(folder / "tokenizer.json"))
config = probe.config({"n_vocab": 320, "n_layers": 1})
words = vocabulary.from_folder(folder, 320)
gguf_file.write(folder / "m.gguf", config, probe.weights(config, 0), "f32", words)
bound = libllama_binding.load(libllama_binding.library_in(""))
ffi, lib = bound.ffi, bound.lib
model = lib.llama_model_load_from_file(
    str(folder / "m.gguf").encode(), lib.llama_model_default_params()
)
vocab, mine, same = lib.llama_model_get_vocab(model), Tokenizer.open(folder / "m.gguf"), []
for text in json.loads(sys.argv[2]):
    raw, out = text.encode(), ffi.new("int32_t[]", 200)
    n = lib.llama_tokenize(vocab, raw, len(raw), out, 200, False, True)
    same.append(list(out[0:n]) == mine.encode(text))
print(json.dumps(same))
"""


def test_cuts_text_as_the_family_s_tokenizer(run, tmp_path):
    """From our GGUF; but libllama v0.5.0 does not compose characters (NFC), the last text."""
    pytest.importorskip("tokenizers")
    texts = [
        "The cat's 12 hats, naïve 你好\n\n  done<|im_end|> we'LL see",
        "a  b\t\tc\n",
        "e\u0301",
    ]
    assert json.loads(run("-c", WORDS, tmp_path, json.dumps(texts)).stdout) == [True, True, False]


def test_a_hostile_file_is_one_error(run, tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + bytes(200))
    done = run("-m", "hotfire", "exact", "hash:", f"libllama:{path}")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_another_release_is_refused(folder, monkeypatch):
    """The canaries of the check on load: a missing function, and a record that is too short."""
    path = libllama_binding.library_in(str(folder))
    libllama_binding.check(path)
    real = libllama_binding.declarations
    for name, new in (
        ("    struct llama_context *ctx_other;\n", ""),
        ("int32_t llama_decode(", "int32_t llama_decode_it("),
    ):
        text = real(libllama_binding.LLAMA)
        assert name in text
        monkeypatch.setattr(
            libllama_binding,
            "declarations",
            lambda which, text=text, name=name, new=new: (
                text.replace(name, new) if which == libllama_binding.LLAMA else real(which)
            ),
        )
        libllama_binding.mirror.cache_clear()
        with pytest.raises(StaleLibraryError, match=r"llama_decode_it|writes 160 bytes"):
            libllama_binding.check(path)
    libllama_binding.mirror.cache_clear()


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv(libllama_binding.VARIABLE, raising=False)
    for where, says in (("", "HOTFIRE_LIBLLAMA"), (str(tmp_path), "found 0")):
        with pytest.raises(InputError, match=says):
            libllama_binding.library_in(where)
