"""The family's tokenizer, by the `tokenizers` package, and its chat template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from hotfire.errors import InputError
from hotfire.ref.models import container, vocabulary
from hotfire.ref.models.chat import ChatTemplate


class Tokenizer:
    """Text to ids and back; `Tokenizer.open` reads it from a model.

    Args:
        inner: of the `tokenizers` package.
        template: the chat template, "" for none.
        name: where it comes from, for messages.
    """

    def __init__(self, inner: Any, template: str, name: str) -> None:
        self._inner, self._template, self._name = inner, template, name

    @classmethod
    def open(cls, path: Path) -> Self:
        """The tokenizer of a checkpoint's folder or of a GGUF file.

        Raises:
            InputError: if there is none, it is damaged, or the package is missing.
        """
        if path.is_file():
            try:
                found = vocabulary.from_fields(container.read(path).fields)
            except InputError as error:
                raise InputError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
            return cls(vocabulary.tokenizer(found), found.template, str(path))
        source = path / "tokenizer.json"
        if not source.is_file():
            raise InputError(f"{source} is missing; this model takes token ids only")
        package = vocabulary.package()
        try:
            inner = package.Tokenizer.from_file(str(source))
        except Exception as error:  # the package raises no more precise one
            raise InputError(f"{source} is no tokenizer: {error}") from None
        return cls(inner, vocabulary.chat_template(path), str(path))

    @property
    def n_vocab(self) -> int:
        """How many ids have a token, special ones included."""
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
        """The template that came with the model.

        Raises:
            InputError: if there is none.
        """
        if not self._template:
            raise InputError(f"{self._name} has no chat template")
        return ChatTemplate(self._template, name=f"the template of {self._name}")
