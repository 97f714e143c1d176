"""The family's byte-level BPE vocabulary, as tokenizer.json has it and as GGUF has it.

Text is cut by `PATTERN`, bytes are written as printable characters, pairs are merged in the order
of `merges`. Ids without a token, which pad the embedding, become unused tokens in GGUF.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hotfire.errors import InputError

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How the family cuts text before merging (tokenization_qwen3_5.py)."""
PRE = "qwen35"
"""llama.cpp's name of that cut."""

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
"""llama.cpp's kinds of tokens."""
TEMPLATE_FILE = "chat_template.jinja"


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Tokens by id, and what goes with them.

    Args:
        tokens: by id.
        kinds: of each, NORMAL to UNUSED.
        merges: pairs, "a b", first merged first.
        template: the chat template, "" for none.
        eos: the id that ends a turn, or None.
    """

    tokens: tuple[str, ...]
    kinds: tuple[int, ...]
    merges: tuple[str, ...]
    template: str = ""
    eos: int | None = None


def read_json(path: Path) -> Any:
    """A JSON file.

    Raises:
        InputError: if it cannot be read or is none.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def chat_template(folder: Path) -> str:
    """The template that came with a checkpoint: its own file, or in tokenizer_config.json; ""
    for none.
    """
    own, path = folder / TEMPLATE_FILE, folder / "tokenizer_config.json"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    tree = read_json(path) if path.is_file() else {}
    source = tree.get("chat_template") if isinstance(tree, dict) else None
    if isinstance(source, list):  # named templates; the one called default is for chat
        named = {
            each.get("name"): each.get("template") for each in source if isinstance(each, dict)
        }
        source = named.get("default")
    return source if isinstance(source, str) else ""


def from_folder(folder: Path, n_vocab: int) -> Vocabulary:
    """Reads tokenizer.json and what lies beside it.

    Args:
        folder: of a checkpoint.
        n_vocab: rows of the embedding; ids beyond the last token are unused.

    Raises:
        InputError: if it is no byte-level BPE, or has more tokens than the model.
    """
    path = folder / "tokenizer.json"
    tree = read_json(path)
    try:
        model, added = tree["model"], tree.get("added_tokens") or []
        if model["type"] != "BPE":
            raise InputError(f"{path}: model {model['type']!r}; GGUF here takes BPE only")
        by_id = {int(number): (str(token), NORMAL) for token, number in model["vocab"].items()}
        for each in added:
            kind = CONTROL if each["special"] else USER_DEFINED
            by_id[int(each["id"])] = (str(each["content"]), kind)
        merges = [each if isinstance(each, str) else " ".join(each) for each in model["merges"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path} is no tokenizer: {type(error).__name__} {error}") from None
    if by_id and not 0 <= min(by_id) <= max(by_id) < n_vocab:
        raise InputError(f"{path}: ids up to {max(by_id)}, the model has {n_vocab}")
    filled = [by_id.get(number, (f"[PAD{number}]", UNUSED)) for number in range(n_vocab)]
    tokens = tuple(token for token, _ in filled)
    return Vocabulary(
        tokens=tokens,
        kinds=tuple(kind for _, kind in filled),
        merges=tuple(merges),
        template=chat_template(folder),
        eos=_eos(folder, tokens),
    )


def _eos(folder: Path, tokens: tuple[str, ...]) -> int | None:
    path = folder / "tokenizer_config.json"
    tree = read_json(path) if path.is_file() else {}
    named = tree.get("eos_token") if isinstance(tree, dict) else None
    text = named.get("content") if isinstance(named, dict) else named
    return tokens.index(text) if text in tokens else None


def to_fields(vocabulary: Vocabulary) -> Iterator[tuple[str, str, Any]]:
    """GGUF fields: type, key, value."""
    yield "string", "tokenizer.ggml.model", "gpt2"
    yield "string", "tokenizer.ggml.pre", PRE
    yield "array", "tokenizer.ggml.tokens", list(vocabulary.tokens)
    yield "array", "tokenizer.ggml.token_type", list(vocabulary.kinds)
    yield "array", "tokenizer.ggml.merges", list(vocabulary.merges)
    yield "bool", "tokenizer.ggml.add_bos_token", False
    if vocabulary.eos is not None:
        yield "uint32", "tokenizer.ggml.eos_token_id", vocabulary.eos
    if vocabulary.template:
        yield "string", "tokenizer.chat_template", vocabulary.template


def from_fields(fields: Mapping[str, Any]) -> Vocabulary:
    """The inverse of `to_fields`.

    Raises:
        InputError: if a GGUF file has another kind of vocabulary, or a damaged one.
    """
    kind, pre = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if (kind, pre) != ("gpt2", PRE):
        raise InputError(f"vocabulary {kind!r}, cut {pre!r}; expected 'gpt2', {PRE!r}")
    lists = [fields.get(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type", "merges")]
    types = (str, int, str)
    for each, wanted in zip(lists, types, strict=True):
        if not isinstance(each, list) or not all(isinstance(item, wanted) for item in each):
            raise InputError("the vocabulary's tokens, kinds or merges are missing or damaged")
    tokens, kinds, merges = lists
    assert tokens is not None
    assert kinds is not None
    assert merges is not None
    eos, template = fields.get("tokenizer.ggml.eos_token_id"), fields.get("tokenizer.chat_template")
    fits = eos is None or (isinstance(eos, int) and 0 <= eos < len(tokens))
    if len(tokens) != len(kinds) or not fits:
        raise InputError("the vocabulary's kinds or its eos do not fit its tokens")
    return Vocabulary(
        tokens=tuple(tokens),
        kinds=tuple(kinds),
        merges=tuple(merges),
        template=template if isinstance(template, str) else "",
        eos=eos,
    )


def tokenizer(vocabulary: Vocabulary) -> Any:
    """The vocabulary as an object of the `tokenizers` package.

    Raises:
        InputError: if the package is missing, or a merge names no token.
    """
    package_ = package()
    numbered = list(enumerate(zip(vocabulary.tokens, vocabulary.kinds, strict=True)))
    normal = {token: number for number, (token, kind) in numbered if kind == NORMAL}
    merges = [tuple(merge.split(" ")) for merge in vocabulary.merges]
    try:
        made = package_.Tokenizer(package_.models.BPE(vocab=normal, merges=merges))
    except Exception as error:  # the package raises no more precise one
        raise InputError(f"the vocabulary is damaged: {error}") from None
    made.normalizer = package_.normalizers.NFC()
    cut = package_.pre_tokenizers.Split(package_.Regex(PATTERN), behavior="isolated")
    level = package_.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = package_.pre_tokenizers.Sequence([cut, level])
    made.decoder = package_.decoders.ByteLevel()
    for _, (token, kind) in numbered:
        if kind in (CONTROL, USER_DEFINED):
            special = kind == CONTROL
            made.add_tokens([package_.AddedToken(token, special=special, normalized=False)])
    wrong = [token for number, (token, kind) in numbered
             if kind in (CONTROL, USER_DEFINED) and made.token_to_id(token) != number]  # fmt: skip
    if wrong:
        raise InputError(f"the special token {wrong[0]!r} cannot keep its id")
    return made


def package() -> Any:
    """The `tokenizers` package.

    Raises:
        InputError: if it is not installed.
    """
    try:
        return import_module("tokenizers")
    except ImportError:
        raise InputError("text needs `pip install 'hotfire[models]'` (tokenizers)") from None
