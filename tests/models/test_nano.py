"""`nano`: the committed files are the measured ones, and the measured figures come out again."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from hotfire.engines import Batch, Span, open_engine
from hotfire.engines.exact import check
from hotfire.engines.faults import FAULTS
from hotfire.engines.sensitivity import ENOUGH, Sensitivity, enough
from hotfire.engines.tracks import Prompts
from hotfire.errors import InputError
from hotfire.ref.models import drafting, gguf_file, language, vocabulary
from hotfire.ref.models.drafting import BLOCK, Drafts, Mtp, open_drafter
from hotfire.ref.models.load import NANO, load
from hotfire.ref.models.model import Model
from hotfire.ref.models.tokenizer import Tokenizer
from hotfire.verdict import Status

MANIFEST = json.loads((NANO / "nano.json").read_text())
SCRIPTS = Path(__file__).resolve().parents[2] / "ci/nano"


@pytest.fixture(scope="module")
def nano():
    config, weights = load("nano")
    return Model(config, weights, "nano"), weights


@pytest.fixture(scope="module")
def tokenizer():
    pytest.importorskip("tokenizers")
    return Tokenizer.open(NANO)


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)


def chat(tokenizer, said):
    with tokenizer.chat_template() as template:
        return tokenizer.encode(template.render([{"role": "user", "content": said}]))


def test_the_committed_hash_is_what_is_tested():
    for name, want in MANIFEST["sha256"].items():
        assert hashlib.sha256((NANO / name).read_bytes()).hexdigest() == want, name
    assert "model.safetensors" in MANIFEST["sha256"]


def test_it_is_as_small_as_promised(nano):
    model, weights = nano
    n = sum(int(np.prod(each.shape)) for each in weights.values())
    n += sum(each.size for each in open_drafter(model, NANO).weights.values())
    assert n == MANIFEST["n_parameters"] <= 4_000_000
    assert sum(path.stat().st_size for path in NANO.glob("*.safetensors")) <= 8_000_000
    assert {each.dtype for name, each in weights.items() if "A_log" not in name} <= {"bf16", "f32"}


def answer(engine, tokenizer, ids):
    """What the engine says, greedily, until the turn ends."""
    said, at = [], 0
    while tokenizer.decode(said[-1:]) != "<|im_end|>" and len(said) < 40:
        rows = engine.decode(Batch.of([Span(0, at, [*ids, *said][at:])]))
        at = len(ids) + len(said)
        said.append(int(rows.argmax[0]))
    engine.seq_remove(0)
    return tokenizer.decode(said, skip_special=True)


@pytest.mark.parametrize("long", [False, True])
def test_four_prompts_have_four_right_answers(tokenizer, long):
    turns = language.four_prompts(long=long)
    assert len({turn.answer for turn in turns}) == 4
    with open_engine("numpy:nano") as engine:
        for turn in turns:
            ids = chat(tokenizer, turn.said)
            assert (len(ids) > 250) is long
            assert answer(engine, tokenizer, ids) == turn.answer


@pytest.mark.parametrize(("number", "n_facts"), [("7341", 0), ("0042", 30), ("93017752", 20)])
def test_a_canary_comes_back(tokenizer, number, n_facts):
    turn = language.canary(f"canary/{number}", number, n_facts)
    assert turn.said.count(number) == 1
    with open_engine("numpy:nano") as engine:
        assert answer(engine, tokenizer, chat(tokenizer, turn.said)) == turn.answer


def test_answers_are_right_as_measured(scripts, nano):
    """A tenth of the held-out conversations; the figures of all are in nano.json."""
    pytest.importorskip("tokenizers")
    import data
    from evaluate import Evaluation

    every = MANIFEST["answers"]
    assert every["128"]["right"] > 0.95
    assert every["512"]["right"] > 0.95
    evaluation = Evaluation(NANO)
    rows = data.rows(NANO, "held out/128", 12, 129)
    found = [right for row in rows for _, right in evaluation.conversation(row, drafts=True)]
    assert np.mean(found) > 0.85
    for name, accepted in evaluation.accepted.items():
        assert 0.15 < accepted.figures()["acceptance_rate"] < 0.95, name
    for name, each in MANIFEST["drafting"].items():
        assert 0.25 < each["acceptance_rate"] < 0.85, name


def test_figures_that_drift_are_named(scripts):
    """The check of `evaluate.py --check`: the kept figures pass, others do not."""
    pytest.importorskip("tokenizers")
    import evaluate

    other = json.loads(json.dumps(MANIFEST))
    assert evaluate.drifted(other) == []
    other["answers"]["512"]["right"] -= 0.01
    other["drafting"]["mtp 2"]["acceptance_rate"] += 0.01
    assert evaluate.drifted(other) == ["answers 512", "drafting mtp 2"]


def test_the_training_network_computes_what_the_reference_does(scripts, nano):
    """Trunk, MTP head at each depth, block drafter: torch in f32 against float64."""
    torch = pytest.importorskip("torch")
    import data
    from network import Nano
    from train import read

    model, weights = nano
    net = Nano(model.config, Drafts())
    read(NANO, net)
    ids = data.rows(NANO, "test", 2, 129)[1].ids
    anchors = [1, 5, 100]
    with torch.no_grad():
        stream = net.model(torch.tensor([ids[:-1]]))
        hidden = net.model.norm(stream[-1])
        deep = [each[0].numpy() for each in net.mtp(hidden, stream[0])]
        block = net.drafter(stream, stream[0], torch.tensor(anchors))
        drafted = net.model.head(block[0, :, 1:]).numpy()
    out = model.forward(ids[:-1], keep_hidden=True)
    assert np.abs(out.logits - net.model.head(hidden)[0].detach().numpy()).max() < 1e-3
    mtp, normed = Mtp(model, weights), model.normed(out.hidden[-1])
    _, past = mtp.step(normed[:60], ids[1:61], mtp.fresh())
    h = normed[60:61]
    for depth, want in enumerate(deep):
        h, past = mtp.step(h, [ids[61 + depth]], past)
        assert np.abs(h[0] - want[60]).max() < 1e-3
    drafter = open_drafter(model, NANO)
    context = drafter.context(out.hidden)
    for want, at in zip(drafted, anchors, strict=True):
        assert np.abs(drafter.logits(context[:at], ids[at]) - want).max() < 1e-3


def test_the_training_script_goes_on_where_it_stopped(scripts, tmp_path, monkeypatch, capsys):
    """Two steps of the drafter, the second after an interruption; the trunk stays as it is."""
    pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    import train

    small = ["--begin", NANO, "--only", "drafter", "--rows", "1", "--length", "64"]
    for steps in ("1", "2"):
        words = [tmp_path / "out", *small, "--steps", steps, "--checkpoint", tmp_path / "at"]
        monkeypatch.setattr("sys.argv", ["train.py", *map(str, words)])
        train.main()
    said = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in said] == ["drafter 1/1", "drafter 2/2"]
    got, want = (folder / "model.safetensors" for folder in (tmp_path / "out", NANO))
    assert got.read_bytes() == want.read_bytes()
    assert (tmp_path / "out/drafter.safetensors").read_bytes() != (
        NANO / "drafter.safetensors"
    ).read_bytes()
    open_drafter(Model(*load(str(tmp_path / "out")), "trained"), tmp_path / "out")


def test_drafts_follow_from_the_logits(nano):
    model, weights = nano
    out = model.forward([5, 9, 200, 31], keep_hidden=True)
    mtp, normed = Mtp(model, weights), model.normed(out.hidden[-1])
    _, past = mtp.step(normed[:3], [9, 200, 31], mtp.fresh())
    drafts = mtp.draft(normed[3], 77, past, 3)
    assert drafts[:2] == mtp.draft(normed[3], 77, past, 2)
    h, _ = mtp.step(normed[3:], [77], past)
    assert drafts[0] == model.head(h)[0].argmax()
    with pytest.raises(InputError, match=r"mtp\.fc"):
        Mtp(model, {name: each for name, each in weights.items() if name != "mtp.fc.weight"})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"block_size": 4, "target_layer_ids": [1], "num_hidden_layers": 1}']
)
def test_a_damaged_drafter_is_one_error(nano, tmp_path, text):
    (tmp_path / drafting.FILES[0]).write_text(text)
    with pytest.raises(InputError, match=r"drafter\.json"):
        open_drafter(nano[0], tmp_path)
    with pytest.raises(InputError, match="there are 8"):
        drafting.Drafter(nano[0], Drafts(layers=(8,)), {})


def test_transformers_agrees_on_nano():
    """By the name and by its own classes, within the f32 bound; the MTP head is ignored."""
    pytest.importorskip("transformers")
    prompts = Prompts(n_prompts=2, length_max=80, n_generated=2)
    with open_engine("numpy:nano") as one, open_engine("transformers:nano") as other:
        assert check(one, other, prompts, [0]).status is Status.PASSED


def test_auto_classes_open_the_folder(tokenizer):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(NANO)
    text = "zoë has a red key. remember 73412290."
    assert theirs.encode(text, add_special_tokens=False) == tokenizer.encode(text)
    model = transformers.AutoModelForCausalLM.from_pretrained(NANO)
    assert type(model).__name__ == "Qwen3_5ForCausalLM"


@pytest.mark.parametrize("dtype", ["bf16", "q8_0", "q4_0"])
def test_it_can_be_written_as_gguf(nano, tokenizer, tmp_path, dtype):
    pytest.importorskip("gguf")
    model, weights = nano
    path = tmp_path / "nano.gguf"
    words = vocabulary.from_folder(NANO, model.config.n_vocab)
    gguf_file.write(path, model.config, weights, dtype, words)
    config, read, _ = gguf_file.read(path)
    ids = chat(tokenizer, language.four_prompts()[1].said)
    assert Tokenizer.open(path).encode(tokenizer.decode(ids)) == ids
    want, got = (each.forward(ids).logits for each in (model, Model(config, read, "gguf")))
    assert want[-1].argmax() == got[-1].argmax()
    assert np.abs(want - got).max() < {"bf16": 1e-4, "q8_0": 1, "q4_0": 12}[dtype]


def test_the_language_is_the_same_everywhere(scripts):
    """A seed is a text: what training and every suite rely on."""
    pytest.importorskip("tokenizers")
    from evaluate import language_hash

    assert language_hash() == MANIFEST["language"]


def test_questions_have_the_answers_that_the_facts_say():
    """Of things: read off the text again, by a rule that knows no world."""
    for seed in range(40):
        owner = {}
        for turn in itertools.islice(language.turns(f"facts/{seed}"), 12):
            for fact in turn.said.split(". "):
                words = fact.split()
                if words[1:3] == ["has", "a"]:
                    owner[" ".join(words[3:5])] = words[0]
                elif words[1:3] == ["gives", "the"]:
                    owner[" ".join(words[3:5])] = words[6]
            if turn.kind == "who":
                item = turn.said.split("who has the ")[1].rstrip("?")
                assert turn.answer == f"{owner[item]}."


def test_the_scripts_cut_text_as_the_tokenizer_does(scripts, tokenizer):
    import data

    encoder = data.Encoder(NANO)
    for seed in range(20):
        for turn in itertools.islice(language.turns(f"cut/{seed}"), 6):
            assert encoder(turn.said) == tokenizer.encode(turn.said)
    row = data.row(encoder, "cut/1", 60)
    first = next(language.turns("cut/1"))
    assert row.ids[: row.spans[0][1]] == chat(tokenizer, first.said)


def test_what_nano_may_be_used_for(scripts):
    """A prompt of the list's own: a fault by more than 100 bounds, and no fault by less."""
    pytest.importorskip("tokenizers")
    from evaluate import long_prompts

    listed = MANIFEST["sensitivity"]
    assert set(listed["measured"]) == set(FAULTS), "run ci/nano/sensitivity.py --write"
    for fault, figures in listed["measured"].items():
        assert (figures["least"] >= ENOUGH) is (fault in listed["faults"])
    measured = Sensitivity(*load("nano"), [long_prompts(1, 100)[0].ids])
    assert "final_gate_at_wrong_index" in listed["faults"]
    assert enough(measured.moved("final_gate_at_wrong_index"))
    assert not enough(measured.moved(""))


def test_the_block_is_what_the_config_says():
    assert json.loads((NANO / drafting.FILES[0]).read_text())["block_size"] == BLOCK
    assert (NANO / drafting.FILES[0]).read_text() == drafting.drafter_json(Drafts())
