"""Makes nano's tokenizer: byte-level BPE, merges learnt from its own language.

python ci/nano/tokenizer.py ref/models/nano
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

from hotfire.ref.models import language
from hotfire.ref.models.vocabulary import PATTERN

N_VOCAB = 650
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = """\
{%- for message in messages %}
    {%- if message.role not in ['user', 'assistant'] %}
        {{- raise_exception('nano knows user and assistant, not ' + message.role) }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def corpus() -> list[str]:
    """Text to learn merges from: without letters beyond ASCII, so that these stay bytes."""
    lines = []
    for index in range(1500):
        for turn in itertools.islice(language.turns(f"tokenizer/{index}"), 6):
            lines += [turn.said, turn.answer, "user\n", "assistant\n"]
    lines += [name for name in language.NAMES if name.isascii() for _ in range(50)]
    return [line for line in lines if line.isascii()]


def make() -> object:
    """The trained tokenizer."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    cut = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([cut, level])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=N_VOCAB - len(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(corpus(), trainer)
    made.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in SPECIAL])
    return made


def main(folder: Path) -> None:
    """Writes the tokenizer and what goes with it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = make()
    made.save(str(folder / "tokenizer.json"))
    fields = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 4096,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(fields, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    print(f"{folder}: {made.get_vocab_size()} tokens")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
