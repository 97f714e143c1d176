"""Plants every fault into nano and prints how far each moves the logits, in f32 bounds.

python ci/nano/sensitivity.py             # nano;  add `probe` to see the random model's
python ci/nano/sensitivity.py --write     # and keep the list in nano.json
"""

from __future__ import annotations

import json
import sys

import numpy as np
from evaluate import MANIFEST, long_prompts

from hotfire.engines.faults import FAULTS
from hotfire.engines.sensitivity import ENOUGH, Sensitivity, enough
from hotfire.ref.models.load import load

N_PROMPTS = 6


def main(words: list[str]) -> int:
    """Measures and prints, and writes if asked; 1 if nano's list is another than the kept one."""
    name = "probe" if "probe" in words else "nano"
    config, weights = load(name)
    prompts = [each.ids for each in long_prompts(N_PROMPTS)]
    if name == "probe":
        rng = np.random.default_rng(0)
        prompts = [rng.integers(0, config.n_vocab, len(each)).tolist() for each in prompts]
    print(f"{name}: {N_PROMPTS} prompts of {min(map(len, prompts))} to {max(map(len, prompts))}")
    measured = Sensitivity(config, weights, prompts)
    found = {}
    for fault in FAULTS:
        moved = measured.moved(fault)
        found[fault] = {"least": round(min(moved)), "median": round(float(np.median(moved)))}
        kept = "may be looked for" if enough(moved) else "TOO LITTLE"
        print(
            f"  {fault}: least {min(moved):.0f}, median {np.median(moved):.0f}: {kept}", flush=True
        )
    if name == "probe":
        return 0
    tree = json.loads(MANIFEST.read_text())
    listed = [fault for fault, each in found.items() if each["least"] >= ENOUGH]
    if "--write" in words:
        tree["sensitivity"] = {
            "unit": "the f32 bound of hotfire.engines.compare",
            "enough": ENOUGH,
            "measured": found,
            "faults": listed,
        }
        MANIFEST.write_text(json.dumps(tree, indent=1) + "\n")
    return 0 if tree["sensitivity"]["faults"] == listed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
