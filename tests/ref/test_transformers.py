"""The references against `transformers`' own functions for Qwen3.5, where it has them.

`transformers` casts to f32 inside, so agreement is to f32: 1e-5 of the largest value.
"""

import numpy as np
import pytest
import torch

from hotfire.ref.registry import operation

qwen = pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5")
N_TOKENS, N_K_HEADS, N_GROUPS, K_DIM, V_DIM = 70, 2, 3, 16, 8
ONE = np.array([0, N_TOKENS])


def tensor(values):
    """With a batch axis in front."""
    return torch.from_numpy(np.asarray(values))[None]


def agree(got, want):
    """To f32."""
    want = want.detach().numpy()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.fixture
def drawn():
    """Queries, keys, values, gates, betas and a state, of one sequence."""
    rng = np.random.default_rng(1)
    n_heads = N_K_HEADS * N_GROUPS
    return {
        "q": rng.standard_normal((N_TOKENS, N_K_HEADS, K_DIM)),
        "k": rng.standard_normal((N_TOKENS, N_K_HEADS, K_DIM)),
        "v": rng.standard_normal((N_TOKENS, n_heads, V_DIM)),
        "gate": -rng.exponential(0.05, (N_TOKENS, n_heads)),
        "beta": rng.uniform(0, 1, (N_TOKENS, n_heads)),
        "state": rng.standard_normal((1, n_heads, K_DIM, V_DIM)),
    }


@pytest.mark.parametrize(
    "form", ["torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule"]
)
@pytest.mark.parametrize("fresh", [False, True])
def test_gated_delta(drawn, form, fresh):
    """Token by token and in chunks of 64, with its normalisation of queries and keys."""
    unit = {name: operation("l2_norm").reference(drawn[name], 1e-6)["y"] for name in ("q", "k")}
    got = operation("gated_delta").reference(
        **{**drawn, **unit},
        seq_start=ONE,
        has_state=np.array([0 if fresh else 1]),
        scale=K_DIM**-0.5,
        tiled=0,
    )
    y, state = getattr(qwen, form)(
        *(tensor(drawn[name]) for name in ("q", "k", "v")),
        tensor(drawn["gate"]),
        tensor(drawn["beta"]),
        initial_state=None if fresh else torch.from_numpy(drawn["state"]),
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )
    agree(got["y"], y[0])
    agree(got["state"], state)


@pytest.mark.parametrize("n_tokens", [1, 2, 3, 9])
def test_conv1d_causal(n_tokens):
    """With a state, whose columns transformers keeps as channels first; short chunks too."""
    rng = np.random.default_rng(2)
    x, weight = rng.standard_normal((n_tokens, 5)), rng.standard_normal((4, 5))
    state = rng.standard_normal((1, 3, 5))
    starts, one = np.array([0, n_tokens]), np.array([1])
    got = operation("conv1d_causal").reference(x, weight, starts, one, state)
    kept = torch.from_numpy(state).transpose(1, 2).contiguous()
    update = getattr(qwen.causal_conv1d_update, "__wrapped__", qwen.causal_conv1d_update)
    y = update(tensor(x).transpose(1, 2), kept, torch.from_numpy(weight.T.copy()), None, "silu")
    agree(got["y"], y[0].T)
    agree(got["state"], kept.transpose(1, 2))


def test_norms():
    """The block norm, which weighs by 1 + w, and the gated one, which weighs by w."""
    rng = np.random.default_rng(3)
    x, gate, weight = rng.standard_normal((7, 24)), rng.standard_normal((7, 24)), rng.random(24)
    for name, module, gates in (
        ("rms_norm_plus_one", qwen.Qwen3_5RMSNorm(24), ()),
        ("rms_norm_gated", qwen.Qwen3_5RMSNormGated(24), (gate,)),
    ):
        module.weight.data = torch.from_numpy(weight)
        want = module(torch.from_numpy(x), *map(torch.from_numpy, gates))
        agree(operation(name).reference(x, weight, *gates, eps=1e-6)["y"], want)
    agree(operation("l2_norm").reference(x, 1e-6)["y"], qwen.l2norm(torch.from_numpy(x)))


def test_rope_partial():
    """The first quarter of a head turns, the rest is copied; heads behind tokens."""
    rng = np.random.default_rng(4)
    n_rot, x = 8, rng.standard_normal((6, 3, 32))
    pos = np.array([0, 1, 5, 100, 4000, 70000])
    angles = pos[:, None] * 1e7 ** (-2.0 * np.arange(n_rot // 2) / n_rot)
    both = tensor(np.concatenate([angles, angles], axis=1))
    rows = tensor(x)
    want, _ = qwen.apply_rotary_pos_emb(rows, rows, both.cos(), both.sin(), unsqueeze_dim=2)
    agree(operation("rope_partial").reference(x, pos, 1e7, n_rot)["y"], want[0])


def test_moe_route():
    """Softmax over all experts, the greatest, weights that sum to one."""
    moe = pytest.importorskip("transformers.models.qwen3_5_moe.modeling_qwen3_5_moe")
    rng = np.random.default_rng(5)
    logits = rng.standard_normal((9, 7))
    router = moe.Qwen3_5MoeTopKRouter.__new__(moe.Qwen3_5MoeTopKRouter)
    torch.nn.Module.__init__(router)
    router.top_k, router.num_experts, router.hidden_dim = 3, 7, 7
    router.weight = torch.nn.Parameter(torch.eye(7, dtype=torch.float64))
    _, weights, ids = router(torch.from_numpy(logits))
    got = operation("moe_route").reference(logits, n_top_k=3)
    assert np.array_equal(got["expert_ids"], ids.numpy())
    agree(got["weights"], weights)
