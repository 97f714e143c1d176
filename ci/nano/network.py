"""nano in torch, for training: the trunk, its MTP head and its block drafter.

Parameters have the names of the family's checkpoints. The Gated DeltaNet is computed in chunks of
64 tokens (Yang et al. 2024, section 3); lengths must be multiples of that. What is right is
`hotfire.ref.models`, and tests/models/test_nano.py compares the two.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody uses
from torch import Tensor, nn

from hotfire.ref.models.config import Config
from hotfire.ref.models.drafting import BLOCK, N_MTP, Drafts

CHUNK = 64
HALF_LIFE_MAX = 2048
FADING = 0.85
"""Weight of a draft in the loss, by its place: without the first, later ones are worth nothing."""


class Norm(nn.Module):
    """x / rms(x) * (1 + weight)."""

    def __init__(self, n: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), None, self.eps) * (1 + self.weight)


class GatedNorm(nn.Module):
    """x / rms(x) * weight * silu(z)."""

    def __init__(self, n: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps) * F.silu(z)


def linear(n_in: int, n_out: int) -> nn.Linear:
    """A product without bias."""
    return nn.Linear(n_in, n_out, bias=False)


def inverse(lower: Tensor) -> Tensor:
    """(1 + lower)^-1 of strictly lower triangular [.., n, n], n a power of two.

    Diagonal blocks twice as large in each step, X -= X C X, where C is what of `lower` lies in the
    larger blocks and outside the smaller ones; stable like forward substitution, unlike a series.
    """
    n = lower.shape[-1]
    at = torch.arange(n, device=lower.device)
    found = torch.eye(n, device=lower.device, dtype=lower.dtype).expand_as(lower)
    size = 1
    while size < n:
        small, large = at // size, at // (2 * size)
        inside = (small[:, None] > small) & (large[:, None] == large)
        cross = lower * inside
        found = found - (found @ cross @ found if size > 1 else cross)
        size *= 2
    return found


class Inverse(torch.autograd.Function):
    """`inverse` with the gradient of an inverse: -X^T dX X^T."""

    @staticmethod
    def forward(ctx, lower):
        found = inverse(lower)
        ctx.save_for_backward(found)
        return found

    @staticmethod
    def backward(ctx, grad):
        (found,) = ctx.saved_tensors
        turned = found.transpose(-1, -2)
        return -(turned @ grad @ turned)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """The gated delta rule from an empty state, in chunks.

    Args:
        q, k: [n_rows, heads, n_tokens, key_dim]; v: [n_rows, heads, n_tokens, value_dim].
        g, beta: [n_rows, heads, n_tokens].

    Returns:
        [n_rows, heads, n_tokens, value_dim].
    """
    q, k, v, g, beta = (x.unflatten(2, (-1, CHUNK)) for x in (q, k, v, g, beta))
    total = g.cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, device=q.device, dtype=torch.bool).tril()
    apart = (total[..., :, None] - total[..., None, :]).masked_fill(~lower, -torch.inf).exp()
    k_beta = k * beta[..., None]
    turn = Inverse.apply((k_beta @ k.transpose(-1, -2) * apart).tril(-1))
    u = turn @ (v * beta[..., None])
    w = turn @ (k_beta * total.exp()[..., None])
    inside = q @ k.transpose(-1, -2) * apart
    q_past = q * total.exp()[..., None]
    k_left = (k * (total[..., -1:] - total).exp()[..., None]).transpose(-1, -2)
    kept = total[..., -1].exp()[..., None, None]
    s = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], device=q.device, dtype=q.dtype)
    out = []
    for c in range(q.shape[2]):
        new = u[:, :, c] - w[:, :, c] @ s
        out.append(q_past[:, :, c] @ s + inside[:, :, c] @ new)
        s = s * kept[:, :, c] + k_left[:, :, c] @ new
    return torch.stack(out, 2).flatten(2, 3)


class DeltaNet(nn.Module):
    """A Gated DeltaNet mixer."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        n_v = c.n_value_heads * c.value_dim
        self.in_proj_qkv = linear(c.n_embd, c.n_conv)
        self.in_proj_z = linear(c.n_embd, n_v)
        self.in_proj_b = linear(c.n_embd, c.n_value_heads)
        self.in_proj_a = linear(c.n_embd, c.n_value_heads)
        self.conv1d = nn.Conv1d(c.n_conv, c.n_conv, c.conv_width, groups=c.n_conv, bias=False)
        half_life = torch.exp(torch.rand(c.n_value_heads) * math.log(HALF_LIFE_MAX / 8)) * 8
        self.dt_bias = nn.Parameter(torch.ones(c.n_value_heads))
        self.A_log = nn.Parameter(torch.log(math.log(2) / half_life / math.log1p(math.e)))
        self.norm = GatedNorm(c.value_dim, c.eps)
        self.out_proj = linear(n_v, c.n_embd)

    def forward(self, h: Tensor) -> Tensor:
        c, n = self.c, h.shape[1]
        x = F.pad(self.in_proj_qkv(h), (0, 0, c.conv_width - 1, 0))
        taps = self.conv1d.weight[:, 0]
        u = F.silu(sum(x[:, j : j + n] * taps[:, j] for j in range(c.conv_width)))
        n_qk = c.n_key_heads * c.key_dim
        q, k, v = u.split([n_qk, n_qk, c.n_value_heads * c.value_dim], -1)
        repeat = c.n_value_heads // c.n_key_heads
        q, k = (
            (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6))
            .repeat_interleave(repeat, 2)
            .transpose(1, 2)
            for x in (q.unflatten(-1, (-1, c.key_dim)), k.unflatten(-1, (-1, c.key_dim)))
        )
        v = v.unflatten(-1, (-1, c.value_dim)).transpose(1, 2)
        g = -self.A_log.exp() * F.softplus(self.in_proj_a(h) + self.dt_bias)
        beta = self.in_proj_b(h).sigmoid()
        o = delta_rule(q * c.key_dim**-0.5, k, v, g.transpose(1, 2), beta.transpose(1, 2))
        z = self.in_proj_z(h).unflatten(-1, (-1, c.value_dim))
        return self.out_proj(self.norm(o.transpose(1, 2), z).flatten(2))


def rotate(x: Tensor, pos: Tensor, c: Config) -> Tensor:
    """RoPE on the first n_rot dims of [n_rows, n_tokens, heads, head_dim]; pos: [n_tokens]."""
    half = c.n_rot // 2
    steps = torch.arange(half, device=x.device, dtype=torch.float32) / half
    angle = pos[:, None].float() * c.rope_theta**-steps
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b, rest = x.split([half, half, x.shape[-1] - 2 * half], -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


class Attention(nn.Module):
    """Gated grouped-query attention, in parts: a drafter attends to more than itself."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.q_proj = linear(c.n_embd, 2 * c.n_heads * c.head_dim)
        self.k_proj = linear(c.n_embd, c.n_kv_heads * c.head_dim)
        self.v_proj = linear(c.n_embd, c.n_kv_heads * c.head_dim)
        self.o_proj = linear(c.n_heads * c.head_dim, c.n_embd)
        self.q_norm = Norm(c.head_dim, c.eps)
        self.k_norm = Norm(c.head_dim, c.eps)

    def query(self, h: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        """[n_rows, n_heads, n_tokens, head_dim], and the gate [n_rows, n_tokens, all heads]."""
        q, gate = self.q_proj(h).unflatten(-1, (self.c.n_heads, -1)).chunk(2, -1)
        return rotate(self.q_norm(q), pos, self.c).transpose(1, 2), gate.flatten(2)

    def key_value(self, h: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        """Both [n_rows, n_heads, n_tokens, head_dim]: repeated for the queries' heads."""
        repeat = self.c.n_heads // self.c.n_kv_heads
        k = self.k_proj(h).unflatten(-1, (self.c.n_kv_heads, -1))
        v = self.v_proj(h).unflatten(-1, (self.c.n_kv_heads, -1))
        k = rotate(self.k_norm(k), pos, self.c)
        k, v = (x.transpose(1, 2).repeat_interleave(repeat, 1) for x in (k, v))
        return k, v

    def out(self, o: Tensor, gate: Tensor) -> Tensor:
        """What the heads found, gated, as a change of the residual stream."""
        return self.o_proj(o.transpose(1, 2).flatten(2) * gate.sigmoid())

    def forward(self, h: Tensor) -> Tensor:
        pos = torch.arange(h.shape[1], device=h.device)
        (q, gate), (k, v) = self.query(h, pos), self.key_value(h, pos)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True), gate)


class Mlp(nn.Module):
    """down(silu(gate(h)) * up(h))."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.gate_proj = linear(c.n_embd, c.n_ff)
        self.up_proj = linear(c.n_embd, c.n_ff)
        self.down_proj = linear(c.n_ff, c.n_embd)

    def forward(self, h: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Block(nn.Module):
    """x += mixer(norm(x)); x += mlp(norm(x))."""

    def __init__(self, c: Config, full: bool) -> None:
        super().__init__()
        self.input_layernorm = Norm(c.n_embd, c.eps)
        if full:
            self.self_attn = Attention(c)
        else:
            self.linear_attn = DeltaNet(c)
        self.post_attention_layernorm = Norm(c.n_embd, c.eps)
        self.mlp = Mlp(c)
        self.full = full

    def forward(self, x: Tensor) -> Tensor:
        mixer = self.self_attn if self.full else self.linear_attn
        return self.after(x, mixer(self.input_layernorm(x)))

    def after(self, x: Tensor, mixed: Tensor) -> Tensor:
        """The rest of the block, once its mixer has run."""
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    """The model itself; the embedding is its head too."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(c.n_vocab, c.n_embd)
        self.layers = nn.ModuleList(Block(c, full) for full in c.full_attention)
        self.norm = Norm(c.n_embd, c.eps)

    def forward(self, ids: Tensor) -> list[Tensor]:
        """The residual stream: embeddings, then after each layer, [n_rows, n_tokens, n_embd]."""
        stream = [self.embed_tokens(ids)]
        for layer in self.layers:
            stream.append(layer(stream[-1]))
        return stream

    def head(self, h: Tensor) -> Tensor:
        """Logits of normed hidden states."""
        return h @ self.embed_tokens.weight.T


class Mtp(nn.Module):
    """h' = norm(block(fc [norm(embed(next token)) ; norm(h)])), as deep as asked."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.pre_fc_norm_embedding = Norm(c.n_embd, c.eps)
        self.pre_fc_norm_hidden = Norm(c.n_embd, c.eps)
        self.fc = linear(2 * c.n_embd, c.n_embd)
        self.layers = nn.ModuleList([Block(c, True)])
        self.norm = Norm(c.n_embd, c.eps)

    def forward(self, hidden: Tensor, embedded: Tensor) -> list[Tensor]:
        """Normed states of each depth d = 1 to N_MTP, [n_rows, n_tokens - d, n_embd].

        Depth d at index i has seen token i + d and stands for token i + d + 1; it attends to the
        first depth up to i, and to what its own chain began at i has added.

        Args:
            hidden: [n_rows, n_tokens, n_embd] the trunk's normed states.
            embedded: [n_rows, n_tokens, n_embd] of the tokens.
        """
        [block] = self.layers
        n = hidden.shape[1]
        found, keys, values = [], [], []
        for depth in range(1, N_MTP + 1):
            h = (found[-1] if found else hidden)[:, : n - depth]
            both = [self.pre_fc_norm_embedding(embedded[:, depth:]), self.pre_fc_norm_hidden(h)]
            x = self.fc(torch.cat(both, -1))
            pos = torch.arange(n - depth, device=x.device)
            normed = block.input_layernorm(x)
            q, gate = block.self_attn.query(normed, pos + depth - 1)
            k, v = block.self_attn.key_value(normed, pos + depth - 1)
            keys, values = [each[:, :, : n - depth] for each in (*keys, k)], [*values, v]
            values = [each[:, :, : n - depth] for each in values]
            mixed = block.self_attn.out(self._chain(q, keys, values), gate)
            found.append(self.norm(block.after(x, mixed)))
        return found

    @staticmethod
    def _chain(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """Attention to the first depth, causally, and to the chain's own later ones."""
        if len(keys) == 1:
            return F.scaled_dot_product_attention(q, keys[0], values[0], is_causal=True)
        scale, n = q.shape[-1] ** -0.5, q.shape[2]
        later = torch.ones(n, n, device=q.device, dtype=torch.bool).triu(1)
        scores = (q @ keys[0].transpose(-1, -2)).masked_fill(later, -torch.inf)
        own = torch.stack([(q * k).sum(-1) for k in keys[1:]], -1)
        weight = (torch.cat([scores, own], -1) * scale).softmax(-1)
        out = weight[..., :n] @ values[0]
        for j, v in enumerate(values[1:]):
            out = out + weight[..., n + j, None] * v
        return out


class Drafter(nn.Module):
    """Drafts a block in one pass, given the trunk's hidden states (after DFlash)."""

    def __init__(self, c: Config, drafts: Drafts) -> None:
        super().__init__()
        self.fc = linear(len(drafts.layers) * c.n_embd, c.n_embd)
        self.hidden_norm = Norm(c.n_embd, c.eps)
        self.mask = nn.Parameter(torch.randn(c.n_embd) * 0.02)
        self.layers = nn.ModuleList(Block(c, True) for _ in range(drafts.n_layers))
        self.norm = Norm(c.n_embd, c.eps)
        self.from_layers = drafts.layers

    def forward(self, stream: list[Tensor], embedded: Tensor, anchors: Tensor) -> Tensor:
        """Normed states of blocks that begin at the anchors, [n_rows, n_anchors, BLOCK, n_embd].

        Args:
            stream: the trunk's, embeddings first.
            embedded: of the tokens.
            anchors: [n_anchors] positions; a block sees hidden states before its anchor only.
        """
        n, block = embedded.shape[1], BLOCK
        features = torch.cat([stream[layer + 1] for layer in self.from_layers], -1)
        context = self.hidden_norm(self.fc(features))
        first = embedded[:, anchors][:, :, None]
        masks = self.mask.expand(*first.shape[:2], block - 1, -1)
        x = torch.cat([first, masks], 2).flatten(1, 2)
        pos = (anchors[:, None] + torch.arange(block, device=x.device)).flatten()
        before = torch.arange(n, device=x.device) < anchors.repeat_interleave(block)[:, None]
        number = torch.arange(len(pos), device=x.device) // block
        seen = torch.cat([before, number[:, None] == number], 1)
        everywhere = torch.arange(n, device=x.device)
        for layer in self.layers:
            h, attn = layer.input_layernorm(x), layer.self_attn
            q, gate = attn.query(h, pos)
            past, now = attn.key_value(context, everywhere), attn.key_value(h, pos)
            k, v = (torch.cat(pair, 2) for pair in zip(past, now, strict=True))
            mixed = attn.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen), gate)
            x = layer.after(x, mixed)
        return self.norm(x).unflatten(1, (-1, block))


class Nano(nn.Module):
    """All of it, and the loss that trains it."""

    def __init__(self, c: Config, drafts: Drafts) -> None:
        super().__init__()
        self.model, self.mtp, self.drafter = Trunk(c), Mtp(c), Drafter(c, drafts)
        self._begin(c)

    def _begin(self, c: Config) -> None:
        _draw(self, c)
        nn.init.normal_(self.model.embed_tokens.weight, std=0.05)

    def begin_mtp(self) -> None:
        """Draws the MTP head anew."""
        c = self.mtp.layers[0].self_attn.c
        self.mtp = Mtp(c).to(self.model.embed_tokens.weight.device)
        _draw(self.mtp, c)

    def losses(self, ids: Tensor, weight: Tensor, anchors: Tensor) -> dict[str, Tensor]:
        """Cross entropies of the trunk and of the drafter.

        The drafter learns from the trunk and teaches it nothing: what passes to it is detached.

        Args:
            ids: [n_rows, n_tokens + 1].
            weight: the same shape, of each token as a target.
            anchors: [n_anchors] where blocks begin.
        """
        stream = self.model(ids[:, :-1])
        found = _loss(self.model.head(self.model.norm(stream[-1])), ids[:, 1:], weight[:, 1:])
        drafted = self._drafter_loss([each.detach() for each in stream], ids, weight, anchors)
        return {"trunk": found, "drafter": drafted}

    def drafter_losses(self, ids: Tensor, weight: Tensor, anchors: Tensor) -> dict[str, Tensor]:
        """The drafter's alone; the trunk stays as it is."""
        with torch.no_grad():
            stream = self.model(ids[:, :-1])
        return {"drafter": self._drafter_loss(stream, ids, weight, anchors)}

    def _drafter_loss(
        self, stream: list[Tensor], ids: Tensor, weight: Tensor, anchors: Tensor
    ) -> Tensor:
        table = self.model.embed_tokens.weight.detach()
        block = self.drafter(stream, stream[0], anchors)
        where = anchors[:, None] + torch.arange(1, BLOCK, device=ids.device)
        fading = FADING ** torch.arange(BLOCK - 1, device=ids.device)
        return _loss(block[:, :, 1:] @ table.T, ids[:, where], weight[:, where] * fading)

    def mtp_losses(self, ids: Tensor, weight: Tensor) -> dict[str, Tensor]:
        """Cross entropies of each depth of the MTP head; the trunk stays as it is."""
        with torch.no_grad():
            stream = self.model(ids[:, :-1])
            hidden = self.model.norm(stream[-1])
        table, found = self.model.embed_tokens.weight.detach(), {}
        for depth, h in enumerate(self.mtp(hidden, stream[0]), 1):
            want = ids[:, depth + 1 :], weight[:, depth + 1 :]
            found[f"mtp {depth}"] = _loss(h @ table.T, *want)
        return found


def _draw(module: nn.Module, c: Config) -> None:
    """Matrices such that activations stay of order 1, and each layer adds little."""
    for name, weight in module.named_parameters():
        if weight.dim() == 2:
            deep = name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight"))
            gain = 1 / math.sqrt(2 * c.n_layers) if deep else 1.0
            nn.init.normal_(weight, std=gain * weight.shape[1] ** -0.5)


def _loss(logits: Tensor, want: Tensor, weight: Tensor) -> Tensor:
    each = F.cross_entropy(logits.flatten(0, -2), want.flatten(), reduction="none")
    return (each * weight.flatten()).sum() / weight.sum().clamp(min=1)
