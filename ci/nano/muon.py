"""Muon (Jordan et al. 2024): momentum, made orthogonal, for weight matrices.

update = NewtonSchulz(g + 0.95 m) sqrt(max(1, rows / columns)), matrices of one shape at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
N_ITERATIONS = 5


def orthogonal(x: Tensor) -> Tensor:
    """[n, rows, columns] with all singular values moved near 1."""
    wide = x.shape[-1] >= x.shape[-2]
    x = x if wide else x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(N_ITERATIONS):
        square = x @ x.transpose(-1, -2)
        x = a * x + (b * square + c * square @ square) @ x
    return x if wide else x.transpose(-1, -2)


class Muon:
    """The optimiser.

    Args:
        weights: matrices.
        rate: a scalar on their device, to be changed in place.
        decay: of weights, times the rate.
    """

    def __init__(self, weights: Sequence[Tensor], rate: Tensor, decay: float) -> None:
        groups = defaultdict(list)
        for weight in weights:
            groups[tuple(weight.shape)].append(weight)
        self._groups, self._rate, self._decay = list(groups.values()), rate, decay
        self._momenta = [torch.zeros_like(torch.stack(group)) for group in self._groups]

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients."""
        for group, momentum in zip(self._groups, self._momenta, strict=True):
            grad = torch.stack([weight.grad for weight in group])
            momentum.lerp_(grad, 1 - MOMENTUM)
            update = orthogonal(grad.lerp(momentum, MOMENTUM))
            rows, columns = update.shape[-2:]
            change = update * (-self._rate * max(1.0, rows / columns) ** 0.5)
            torch._foreach_mul_(group, 1 - self._rate * self._decay)
            torch._foreach_add_(group, list(change.unbind()))

    def state_dict(self) -> dict[str, Any]:
        """The momenta."""
        return {"momenta": self._momenta}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes momenta back."""
        for own, saved in zip(self._momenta, state["momenta"], strict=True):
            own.copy_(saved)
