"""`transformers:MODEL`, the family's own classes in f32 or bf16, as a second opinion.

One sequence a call, no padding: left padding with history, packed positions and `crop` are wrong
in transformers 5.24 itself. Its caches change in place, so each step works on a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from hotfire.engines.numpy_ import describe, fingerprint
from hotfire.engines.protocol import Description
from hotfire.engines.sequential import Held, Sequential, Step
from hotfire.engines.targets import Options
from hotfire.errors import InputError
from hotfire.ref.models.config import Config
from hotfire.ref.models.load import load, locate
from hotfire.ref.models.tensors import Tensor

THREADS_MAX = 1024
"""More than any machine here has; torch itself takes any number, and may end the process."""
UNITS = {"f32": ("float32", 2.0**-24), "bf16": ("bfloat16", 2.0**-8)}
"""dtype -> torch's name of it, and the unit roundoff of what is stored between operations."""


def _package() -> tuple[Any, Any]:
    """transformers and torch.

    Raises:
        InputError: if one is missing.
    """
    try:
        return import_module("transformers"), import_module("torch")
    except ImportError as error:
        raise InputError(
            f"transformers: needs `pip install 'hotfire[models]'` and torch: {error}"
        ) from None


def build(model: str, config: Config, weights: Mapping[str, Tensor], dtype: str) -> Any:
    """The family's class with these weights; a folder is read by transformers itself."""
    transformers, torch = _package()
    transformers.utils.logging.set_verbosity_error()
    moe = "Moe" if config.n_experts else ""
    form = {"dtype": getattr(torch, dtype), "attn_implementation": "eager"}
    kind = getattr(transformers, f"Qwen3_5{moe}ForCausalLM")
    path = locate(model)
    if path.is_dir():
        return kind.from_pretrained(path, **form).eval()
    fields = getattr(transformers, f"Qwen3_5{moe}TextConfig")(**config.to_json())
    built = kind._from_config(fields, **form).eval()
    state = {
        name if name == "lm_head.weight" else f"model.{name}": torch.from_numpy(
            tensor.values().astype(np.float32)
        )
        for name, tensor in weights.items()
    }
    if config.tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    built.load_state_dict(state)
    return built


def versions() -> dict[str, str]:
    """The versions that decide what it computes."""
    transformers, torch = _package()
    return {"transformers": transformers.__version__, "torch": torch.__version__}


class TransformersEngine(Sequential[Any]):
    """The engine; a state is a cache that is never used again once copied from.

    Args:
        model: as `build` makes it.
        description: what it is.
    """

    def __init__(self, model: Any, description: Description) -> None:
        super().__init__(description)
        self._model = model
        self._transformers, self._torch = _package()

    def fresh(self) -> Any:
        return self._transformers.DynamicCache(config=self._model.config)

    def advance(self, state: Any, tokens: Sequence[int], hidden: bool) -> Step[Any]:
        cache = copy.deepcopy(state)
        ids = self._torch.tensor([list(tokens)])
        with self._torch.no_grad(), self._recorded(hidden) as streams:
            out = self._model(ids, cache=cache, use_cache=True)
        kept = np.stack([stream[0].float().numpy() for stream in streams]) if hidden else None
        return Step(cache, out.logits[0].float().numpy(), kept)

    @contextmanager
    def _recorded(self, wanted: bool) -> Any:
        """Collects the residual stream: what enters the first layer, what leaves each."""
        streams: list[Any] = []
        layers = self._model.model.layers if wanted else []
        hooks = [
            layer.register_forward_hook(lambda _module, _inputs, output: streams.append(output))
            for layer in layers
        ]
        hooks += [
            layer.register_forward_pre_hook(lambda _module, inputs: streams.append(inputs[0]))
            for layer in layers[:1]
        ]
        try:
            yield streams
        finally:
            for hook in hooks:
                hook.remove()

    def dump(self, held: Held[Any]) -> bytes:
        return self.head_of(held)

    def load(self, saved: bytes) -> Held[Any]:
        """A cache has no form of its own on disk: the tokens are run again."""
        tokens = self.tokens_of(saved)
        fresh = self.fresh()
        return Held(self.advance(fresh, tokens, False).state if tokens else fresh, tokens)


def open_target(name: str, model: str, options: Options) -> TransformersEngine:
    """Opens `transformers:MODEL`; options dtype, n_ctx, n_seqs, n_batch, threads, a probe's sizes.

    One thread unless more are asked for, of the whole process: small models lose by more.
    """
    sizes = options.sizes()
    _package()[1].set_num_threads(options.whole("threads", 1, most=THREADS_MAX))
    dtype = options.text("dtype", "f32")
    if dtype not in UNITS:
        raise InputError(f"dtype {dtype!r}; expected one of {', '.join(UNITS)}")
    config, weights = load(model, options.probe())
    options.finish()
    theirs, unit = UNITS[dtype]
    scope = {"weights": fingerprint(weights), "arithmetic": theirs, **versions()}
    description = describe(name, config, unit=UNITS["f32"][1], scope=scope, **sizes)
    description = replace(description, unit_stored=unit)
    return TransformersEngine(build(model, config, weights, theirs), description)
