"""Measures nano with the float64 reference: right answers, and how often drafts are accepted.

    python ci/nano/evaluate.py               # the committed model;  --quick for a tenth of it
    python ci/nano/evaluate.py FOLDER        # another
    python ci/nano/evaluate.py --write       # and keep the figures, with the files' hashes
    python ci/nano/evaluate.py --check       # fail if they are not those that are kept

Answers are those to conversations that training never draws. A draft is made after each token that
a verifier would have accepted last, within right answers only, and is accepted as far as it agrees
with what the model itself says next.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import data
import numpy as np

from hotfire.ref.models import language
from hotfire.ref.models.drafting import FILES, Mtp, open_drafter
from hotfire.ref.models.load import NANO, load
from hotfire.ref.models.model import Model
from hotfire.ref.models.state import KeyValues

MANIFEST = NANO / "nano.json"
HASHED = ("model.safetensors", "config.json", "tokenizer.json", *FILES)
DRAFTERS = ("mtp 1", "mtp 2", "mtp 3", "drafter 4", "drafter 7")
"""Each with how many tokens it drafts at a time."""
TOLERANCE = 0.005
"""Of a figure measured again: sums in another order may turn a near tie."""
LENGTHS = {128: 120, 512: 40, 1024: 10}
"""Tokens of a conversation -> how many are held out."""


@dataclass
class Accepted:
    """How a drafter fared.

    Args:
        tried, hit: by place in the draft, tokens that were tested and that were accepted.
        n_drafts: rounds.
    """

    tried: Counter[int] = field(default_factory=Counter)
    hit: Counter[int] = field(default_factory=Counter)
    n_drafts: int = 0

    def add(self, drafts: list[int], truth: list[int]) -> int:
        """Counts a draft against what comes; returns how many tokens were accepted."""
        self.n_drafts += 1
        n_tested = min(len(drafts), len(truth))
        n_right = next((i for i in range(n_tested) if drafts[i] != truth[i]), n_tested)
        self.tried.update(range(n_tested))
        self.hit.update(range(n_right))
        return n_right

    def figures(self) -> dict[str, object]:
        """Rates."""
        n_accepted, n_drafted = self.hit.total(), self.tried.total()
        return {
            "acceptance_rate": round(n_accepted / n_drafted, 3),
            "acceptance_length_mean": round(1 + n_accepted / self.n_drafts, 3),
            "by_place": [round(self.hit[i] / n, 3) for i, n in sorted(self.tried.items())],
            "n_drafts": self.n_drafts,
            "n_drafted": n_drafted,
        }


class Evaluation:
    """A model with its drafters, and what was counted.

    Args:
        folder: of the checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        config, weights = load(str(folder))
        self.folder, self.model = folder, Model(config, weights, str(folder))
        self.mtp, self.drafter = Mtp(self.model, weights), open_drafter(self.model, folder)
        self.n_parameters = sum(int(np.prod(each.shape)) for each in weights.values())
        self.n_parameters += sum(each.size for each in self.drafter.weights.values())
        self.accepted = {name: Accepted() for name in DRAFTERS}

    def conversation(self, row: data.Row, drafts: bool) -> list[tuple[str, bool]]:
        """Kinds of the answers of one conversation, and whether each is right, greedily."""
        out = self.model.forward(row.ids[:-1], keep_hidden=True)
        assert out.hidden is not None
        picks = out.logits.argmax(axis=-1).tolist()
        found = []
        for kind, first, last in row.spans:
            if last < len(row.ids):
                right = picks[first - 1 : last - 1] == row.ids[first:last]
                found.append((kind, right))
                if drafts and right:
                    self._draft(row.ids, first, last, out.hidden)
        return found

    def _draft(self, ids: list[int], first: int, last: int, stream: np.ndarray) -> None:
        normed = self.model.normed(stream[-1])
        _, past = self.mtp.step(normed[: last - 1], ids[1:last], self.mtp.fresh())
        context = self.drafter.context(stream)
        for name, accepted in self.accepted.items():
            at = first
            while at + 1 < last:
                n_drafts = int(name[-1])
                if name.startswith("drafter"):
                    block = self.drafter.logits(context[:at], ids[at])
                    drafts = block[:n_drafts].argmax(axis=-1).tolist()
                else:
                    before = KeyValues(past.k[: at - 1], past.v[: at - 1])
                    drafts = self.mtp.draft(normed[at - 1], ids[at], before, n_drafts)
                at += 1 + accepted.add(drafts, ids[at + 1 : last])


def long_prompts(n_prompts: int, length: int = 300) -> list[data.Row]:
    """Conversations of the chat's form that end with a question, of about so many tokens."""
    rows = []
    for number in range(n_prompts):
        row = data.row(data.Encoder(NANO), f"prompts/{5 * number + 1}", 2 * length)
        cut = next(first for _, first, _ in row.spans if first >= length)
        rows.append(data.Row(row.ids[:cut], []))
    return rows


def measure(folder: Path, share: float = 1.0) -> dict[str, object]:
    """All figures of a checkpoint."""
    evaluation = Evaluation(folder)
    answers = {}
    for length, n_rows in LENGTHS.items():
        found: dict[str, list[bool]] = defaultdict(list)
        n_rows = max(1, round(n_rows * share))
        for row in data.rows(NANO, f"held out/{length}", n_rows, length + 1):
            for kind, right in evaluation.conversation(row, drafts=length == 512):
                found[kind].append(right)
        every = [right for each in found.values() for right in each]
        answers[str(length)] = {
            "right": round(float(np.mean(every)), 4),
            "of": len(every),
            "by_kind": {
                kind: round(float(np.mean(each)), 3) for kind, each in sorted(found.items())
            },
        }
        print(length, json.dumps(answers[str(length)]), flush=True)
    drafting = {name: each.figures() for name, each in evaluation.accepted.items()}
    for name, each in drafting.items():
        print(name, json.dumps(each))
    return {"n_parameters": evaluation.n_parameters, "answers": answers, "drafting": drafting}


def language_hash() -> str:
    """Of some text: another one means another language, for which nano was not trained."""
    text = json.dumps([
        [vars(turn) for turn in itertools.islice(language.turns(f"same/{i}"), 9)]
        for i in range(20)
    ])  # fmt: skip
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of what makes the model."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in HASHED}


def drifted(figures: dict[str, object]) -> list[str]:
    """What is no longer as nano.json has it."""
    kept = json.loads(MANIFEST.read_text())
    found = [name for name, each in hashes(NANO).items() if kept["sha256"][name] != each]
    for part, figure in (("answers", "right"), ("drafting", "acceptance_rate")):
        for name, each in kept[part].items():
            if abs(each[figure] - figures[part][name][figure]) > TOLERANCE:
                found.append(f"{part} {name}")
    return found


def main(words: list[str]) -> int:
    """Measures, prints, and writes or checks if asked."""
    named = [word for word in words if not word.startswith("--")]
    folder = Path(named[0]) if named else NANO
    figures = measure(folder, 0.1 if "--quick" in words else 1.0)
    if "--write" in words:
        tree = json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {}
        tree |= {"sha256": hashes(folder), "language": language_hash(), **figures}
        MANIFEST.write_text(json.dumps(tree, indent=1) + "\n")
    wrong = drifted(figures) if "--check" in words else []
    for each in wrong:
        print(f"not as in {MANIFEST.name}: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
