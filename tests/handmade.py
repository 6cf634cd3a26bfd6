"""Attention written by hand in the ways that people write it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, VOCABULARY = 24, 4, 40


def _split(x: Tensor, heads: int) -> Tensor:
    """Turn (sentences, tokens, width) into (sentences, heads, tokens, width of a head)."""
    by_head: Tensor = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return by_head


class FusedCausal(nn.Module):
    """One projection of queries, keys and values, and PyTorch's fused attention, as in small GPTs."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (_split(part, HEADS) for part in self.c_attn(x).split(WIDTH, -1))
        written: Tensor = self.c_proj(self.mix(query, key, value).transpose(1, 2).flatten(2))
        return written

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Mix values: (sentences, heads, tokens, width of a head)."""
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


class NormedHeads(FusedCausal):
    """A norm of each head's output before the output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH // HEADS)

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        normed: Tensor = self.norm(super().mix(query, key, value))
        return normed


class Annotated(nn.Module):
    """Four projections in a list, as The Annotated Transformer has them."""

    def __init__(self) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (_split(each(x), HEADS) for each in self.linears[:3])
        mixed = functional.scaled_dot_product_attention(query, key, value)
        written: Tensor = self.linears[3](mixed.transpose(1, 2).flatten(2))
        return written


class Grouped(nn.Module):
    """Two query heads to a key/value head, a softmax by hand, and rotations."""

    def __init__(self) -> None:
        super().__init__()
        self.wo, self.wq = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.wk, self.wv = nn.Linear(WIDTH, WIDTH // 2), nn.Linear(WIDTH, WIDTH // 2)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = _split(self.wk(x), 2), _split(self.wq(x), HEADS), _split(self.wv(x), 2)
        looked = _rotate(query).repeat_interleave(2, 1)
        scores = _rotate(key) @ looked.mT / math.sqrt(looked.shape[-1])
        length = x.shape[1]
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
        mixed = self.softmax(scores) @ value.repeat_interleave(2, 1)
        written: Tensor = self.wo(mixed.transpose(1, 2).reshape(1, length, -1))
        return written


def _rotate(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * 0.3 ** torch.arange(half)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


class RawParameters(nn.Module):
    """Plain matrices, multiplied from the right, heads along the last axis but one."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Parameter(torch.randn(WIDTH, 3 * WIDTH) / 5), nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        by_head = (x @ self.qkv).unflatten(-1, (HEADS, 3, -1))
        query, key, value = (by_head[..., part, :].transpose(1, 2) for part in range(3))
        weights = torch.softmax(query @ key.mT, dim=-1)
        written: Tensor = (weights @ value).transpose(1, 2).flatten(2) @ self.proj
        return written


class Block(nn.Module):
    """Attention and an MLP, each added to the residual stream."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = attention
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        after: Tensor = x + self.mlp(self.second(x))
        return after


class LanguageModel(nn.Module):
    """A language model of two layers around attention of any kind."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList([Block(kind()) for _ in range(2)])
        self.dropout = nn.Dropout(0.5)
        self.unembedding = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.dropout(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.unembedding(x)
        return logits


class SummedAxes(nn.Module):
    """Projections with three axes, in einsum notation, and separate biases."""

    def __init__(self) -> None:
        super().__init__()
        narrow = WIDTH // HEADS
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.randn(HEADS, WIDTH, narrow) / 5) for _ in range(3))
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(torch.randn(HEADS, narrow)) for _ in range(3))
        self.W_O, self.b_O = nn.Parameter(torch.randn(HEADS, narrow, WIDTH) / 5), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        query = torch.einsum("btd,hdk->bthk", x, self.W_Q) + self.b_Q
        key = torch.einsum("btd,hdk->bthk", x, self.W_K) + self.b_K
        value = torch.einsum("btd,hdk->bthk", x, self.W_V) + self.b_V
        scores = torch.einsum("bthk,bshk->bhts", query, key) / math.sqrt(query.shape[-1])
        mixed = torch.einsum("bhts,bshk->bthk", scores.softmax(-1), value)
        return torch.einsum("bthk,hkd->btd", mixed, self.W_O) + self.b_O


class Alone(nn.Module):
    """One head alone, as lectures teach it."""

    def __init__(self) -> None:
        super().__init__()
        narrow = WIDTH // HEADS
        self.key, self.query, self.value = (nn.Linear(WIDTH, narrow, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).mT * (WIDTH // HEADS) ** -0.5
        length = x.shape[1]
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
        weights = functional.softmax(scores, dim=-1)
        mixed: Tensor = weights @ self.value(x)
        return mixed


class ManyAlone(nn.Module):
    """A list of single heads, concatenated before the output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.proj = nn.ModuleList([Alone() for _ in range(HEADS)]), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        written: Tensor = self.proj(torch.cat([head(x) for head in self.heads], dim=-1))
        return written


class Gated(FusedCausal):
    """A gate on the outputs, and soft-capped scores."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (_split(part, HEADS) for part in self.c_attn(x).split(WIDTH, -1))
        scores = 2 * torch.tanh(query @ key.mT * 3)
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        written: Tensor = self.c_proj(mixed * self.gate(x).sigmoid())
        return written
