"""The family's tokenizer, by the `tokenizers` package, and its chat template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hotfire.errors import InputError
from hotfire.ref.models.chat import ChatTemplate

TEMPLATE_FILE = "chat_template.jinja"


class Tokenizer:
    """Text to ids and back.

    Args:
        folder: of a checkpoint, with tokenizer.json.

    Raises:
        InputError: if the package is missing, or the file cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        try:
            package: Any = import_module("tokenizers")
        except ImportError:
            raise InputError("text needs `pip install 'hotfire[models]'` (tokenizers)") from None
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise InputError(f"{path} is missing; this model takes token ids only")
        try:
            self._inner = package.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises no more precise one
            raise InputError(f"{path} is no tokenizer: {error}") from None
        self.folder = folder

    @property
    def n_vocab(self) -> int:
        """How many ids there are, special ones included."""
        return int(self._inner.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """Ids of a text; special tokens in it are recognised, none is added."""
        return [int(token) for token in self._inner.encode(text, add_special_tokens=False).ids]

    def decode(self, tokens: Sequence[int], *, skip_special: bool = False) -> str:
        """The text of ids.

        Raises:
            InputError: if one is negative or too large.
        """
        try:
            return str(self._inner.decode(list(tokens), skip_special_tokens=skip_special))
        except (OverflowError, TypeError) as error:
            raise InputError(f"tokens cannot be decoded: {error}") from None

    def chat_template(self) -> ChatTemplate:
        """The template that came with the model: its own file, or in tokenizer_config.json.

        Raises:
            InputError: if there is none.
        """
        own = self.folder / TEMPLATE_FILE
        if own.is_file():
            return ChatTemplate(own.read_text(encoding="utf-8"), name=str(own))
        path = self.folder / "tokenizer_config.json"
        try:
            source = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        if isinstance(source, list):  # named templates; the one called default is for chat
            named = {each.get("name"): each.get("template") for each in source}
            source = named.get("default")
        if not isinstance(source, str):
            raise InputError(f"{self.folder} has no chat template")
        return ChatTemplate(source, name=str(path))
