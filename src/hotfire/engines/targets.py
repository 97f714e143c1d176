"""Opens an engine by its target: `KIND:MODEL,option=value,...`.

    hash:                                  hash:n_vocab=512,seed=3
    numpy:probe,n_layers=24,n_experts=8    numpy:checkpoint/    numpy:model.gguf,n_ctx=512
    transformers:probe,seed=1              native:probe,mode=fast,threads=2

An adapter is a module of this package with `open_target(name, model, options)` and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from hotfire.engines.protocol import Engine
from hotfire.errors import InputError, LibraryError
from hotfire.ref.models.probe import SIZES

KINDS = {
    "hash": "hashing",
    "numpy": "numpy_",
    "transformers": "transformers_",
    "libllama": "libllama",
    "native": "native",
}


class Options:
    """The options of a target, each to be taken by who knows it.

    Args:
        given: by name, as text.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)

    def text(self, name: str, default: str = "") -> str:
        """Takes an option as it is."""
        return self._given.pop(name, default)

    def whole(self, name: str, default: int, *, least: int = 1, most: int = 2**31 - 1) -> int:
        """Takes an option as a whole number.

        Raises:
            InputError: if it is none, or not from `least` to `most`.
        """
        text = self._given.pop(name, str(default))
        try:
            value = int(text)
        except ValueError:
            raise InputError(f"option {name}={text!r}; expected a whole number") from None
        if not least <= value <= most:
            raise InputError(f"option {name}={value}; expected {least} to {most}")
        return value

    def sizes(self, default_ctx: int = 4096) -> dict[str, int]:
        """Takes `n_ctx`, `n_seqs` and `n_batch`."""
        n_ctx = self.whole("n_ctx", default_ctx)
        return {
            "n_ctx": n_ctx,
            "n_seqs": self.whole("n_seqs", 16),
            "n_batch": self.whole("n_batch", max(n_ctx, 4096)),
        }

    def probe(self) -> dict[str, int]:
        """Takes the sizes and the seed of a probe model."""
        return {
            name: self.whole(name, 0, least=0) for name in (*SIZES, "seed") if name in self._given
        }

    def finish(self) -> None:
        """Refuses what nobody took.

        Raises:
            InputError: naming the first.
        """
        if self._given:
            raise InputError(f"option {next(iter(self._given))!r} is not known to this target")


Opener = Callable[[str, str, Options], Engine]


def open_engine(target: str) -> Engine:
    """The engine of a target.

    Raises:
        InputError: if the kind, the model or an option is not known, or something is missing that
            the engine needs.
        LibraryError: if the engine's library cannot do what is asked on this machine.
    """
    kind, colon, rest = target.partition(":")
    if not colon or kind not in KINDS:
        known = ", ".join(f"{name}:" for name in KINDS)
        raise InputError(f"target {target!r}; expected one of {known} and a model")
    model, given = "", dict[str, str]()
    for index, word in enumerate(filter(None, rest.split(","))):
        name, equals, value = word.partition("=")
        if equals:
            if name in given:
                raise InputError(f"target {target!r}: option {name} is given twice")
            given[name] = value
        elif index == 0:
            model = word
        else:
            raise InputError(f"target {target!r}: {word!r} is no option=value")
    module = import_module(f"hotfire.engines.{KINDS[kind]}")
    opener: Opener = module.open_target
    options = Options(given)
    try:
        engine = opener(target, model, options)
    except (InputError, LibraryError) as error:
        raise type(error)(f"target {target!r}: {error}") from None
    return engine
