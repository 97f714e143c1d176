"""Kernels of the hybrid model against transformers' own functions, which round to f32 inside."""

from __future__ import annotations

import numpy as np
import pytest

N_TOKENS, N_KEY_HEADS, N_GROUPS, DIM = 77, 2, 3, 32
N_HEADS = N_KEY_HEADS * N_GROUPS
WHOLE = np.array([0, N_TOKENS], dtype=np.int32)
FRESH = np.zeros(1, dtype=np.int32)
CLOSE = {"rtol": 2e-4, "atol": 2e-5}


@pytest.fixture(scope="module")
def qwen():
    """The module of Qwen3.5."""
    return pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def batch(torch, *arrays):
    """As tensors with a batch of one."""
    return [torch.from_numpy(each)[None] for each in arrays]


@pytest.mark.parametrize("form", ["recurrent", "chunk"])
@pytest.mark.parametrize("ours", ["gated_delta", "gated_delta_chunked"])
def test_gated_delta_is_theirs(call, qwen, torch, form, ours):
    """Both of ours are both of theirs, which normalise queries and keys; the final state too."""
    q, k = normal(1, N_TOKENS, N_KEY_HEADS, DIM), normal(2, N_TOKENS, N_KEY_HEADS, DIM)
    v = normal(3, N_TOKENS, N_HEADS, DIM)
    gate = -np.abs(normal(4, N_TOKENS, N_HEADS)) * np.float32(0.1)
    beta = 1 / (1 + np.exp(-normal(5, N_TOKENS, N_HEADS)))
    theirs = qwen.torch_recurrent_gated_delta_rule
    if form == "chunk":
        theirs = qwen.torch_chunk_gated_delta_rule
    tensors = batch(torch, q, k, v, gate, beta)
    want, want_state = theirs(*tensors, output_final_state=True, use_qk_l2norm_in_kernel=True)
    for each in (q, k):
        assert call("l2_norm", each, each, 1e-6, N_TOKENS * N_KEY_HEADS, DIM, DIM, DIM) == "ok"
    y, state = np.zeros_like(v), np.zeros((N_HEADS, DIM, DIM), dtype=np.float32)
    arguments = (q, k, v, gate, beta, WHOLE, FRESH, y, state, DIM**-0.5)
    sizes = (N_TOKENS, 1, N_KEY_HEADS, N_GROUPS, DIM, DIM, 0)
    sizes += (16,) if ours == "gated_delta_chunked" else ()
    assert call(ours, *arguments, *sizes) == "ok"
    np.testing.assert_allclose(y, want[0].numpy(), **CLOSE)
    np.testing.assert_allclose(state, want_state[0].numpy(), **CLOSE)


def test_partial_rope_is_theirs(call, qwen, torch):
    """Their cosines and sines come for the pairs twice over, and the rest of a head is copied."""
    n_rot, theta = 8, 1e4
    x = normal(6, N_TOKENS, N_HEADS, DIM)
    pos = np.arange(N_TOKENS, dtype=np.int32)
    angles = pos[:, None] * theta ** (-2.0 * np.arange(n_rot // 2) / n_rot)
    twice = torch.from_numpy(np.concatenate([angles, angles], axis=1)).float()[None]
    heads = torch.from_numpy(x).transpose(0, 1)[None]
    want, _ = qwen.apply_rotary_pos_emb(heads, heads, twice.cos(), twice.sin())
    y = np.zeros_like(x)
    sizes = (N_TOKENS, N_HEADS, DIM, n_rot, DIM, DIM)
    assert call("rope_partial", x, pos, y, theta, *sizes) == "ok"
    np.testing.assert_allclose(y, want[0].transpose(0, 1).numpy(), **CLOSE)


def test_gated_norm_is_theirs(call, qwen, torch):
    """The weight is itself, not one more than itself."""
    x, gate, weight = normal(7, N_TOKENS, DIM), normal(8, N_TOKENS, DIM), normal(9, DIM)
    norm = qwen.Qwen3_5RMSNormGated(DIM, eps=1e-6)
    norm.weight.data = torch.from_numpy(weight)
    want = norm(torch.from_numpy(x), torch.from_numpy(gate)).detach().numpy()
    y = np.zeros_like(x)
    assert call("rms_norm_gated", x, weight, gate, y, 1e-6, N_TOKENS, DIM) == "ok"
    np.testing.assert_allclose(y, want, **CLOSE)


def test_norm_is_theirs(call, qwen, torch):
    """Weights are trained around zero."""
    x, weight = normal(10, N_TOKENS, DIM), normal(11, DIM)
    norm = qwen.Qwen3_5RMSNorm(DIM, eps=1e-6)
    norm.weight.data = torch.from_numpy(weight)
    want = norm(torch.from_numpy(x)).detach().numpy()
    y = np.zeros_like(x)
    assert call("rms_norm_plus_one", x, weight, y, 1e-6, N_TOKENS, DIM) == "ok"
    np.testing.assert_allclose(y, want, **CLOSE)
