"""Planted and published ranks are found however the weights are stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.conftest import PERSONS_HUB_CACHE, TinyModel
from tests.engine.checkpoints.test_quantised import FOUR_BIT_LEVELS
from tests.engine.mathematics.dense_spectra import gaussian
from tests.exporting import exported
from tests.opening import edited_weights, with_config

WIDTH, HEAD = 256, 64

LAYER = "layers.0.self_attn.{}_proj.weight"

RANKS = {"Q": 20, "K": 31, "V": 64, "O": 7}

FLAT = (1.0, 0.7)
"""What singular values fall from and to."""

Stored = dict[str, Tensor]


def orthonormal(size: int, count: int, seed: int) -> Tensor:
    basis: Tensor = torch.linalg.qr(gaussian(size, count, seed=seed))[0]
    return basis


def planted(rank: int, sigma: Tensor, seed: int) -> Tensor:
    """Make a head's rows (HEAD, WIDTH) with singular values that are known; all heads share a basis inside."""
    return orthonormal(HEAD, HEAD, 0)[:, :rank] * sigma @ orthonormal(WIDTH, rank, seed).T


def falling(rank: int, outlier: float) -> Tensor:
    """Let singular values fall a little, the first one times an outlier."""
    sigma = torch.linspace(*FLAT, rank, dtype=torch.float64)
    sigma[0] *= outlier
    return sigma


def plain(dtype: torch.dtype) -> Callable[[Tensor], Stored]:
    return lambda weight: {"weight": weight.to(dtype)}


def widened(weight: Tensor) -> Stored:
    return {"weight": weight.bfloat16().float()}


def float8(weight: Tensor) -> Stored:
    """Store numbers of eight bits with one scale for all."""
    scale = weight.abs().max() / 448
    return {"weight": (weight / scale).to(torch.float8_e4m3fn), "weight_scale_inv": scale.float()[None, None]}


def eight_bits(weight: Tensor) -> Stored:
    """Store whole numbers with a scale for each row."""
    largest = weight.abs().amax(1)
    return {"weight": (weight / largest[:, None] * 127).round().to(torch.int8), "SCB": largest.float()}


def four_bits(weight: Tensor) -> Stored:
    """Store the nearest of sixteen levels with a scale for each block of sixteen."""
    blocks = weight.float().reshape(-1, 16)
    scales = blocks.abs().amax(1).clamp_min(1e-9)
    numbers = ((blocks / scales[:, None])[..., None] - FOUR_BIT_LEVELS).abs().argmin(-1).flatten()
    state = f'{{"quant_type": "nf4", "blocksize": 16, "dtype": "float32", "shape": {list(weight.shape)}}}'
    return {
        "weight": (numbers[::2] * 16 + numbers[1::2]).byte()[:, None],
        "weight.absmax": scales,
        "weight.quant_map": FOUR_BIT_LEVELS.clone(),
        "weight.quant_state.bitsandbytes__nf4": torch.tensor(list(state.encode())).byte(),
    }


FORMATS: dict[str, tuple[Callable[[Tensor], Stored], dict[str, object]]] = {
    "float64": (plain(torch.float64), {}),
    "float32": (plain(torch.float32), {}),
    "float16": (plain(torch.float16), {}),
    "bfloat16": (plain(torch.bfloat16), {}),
    "bfloat16 as float32": (widened, {}),
    "float8": (float8, {"quant_method": "fp8", "weight_block_size": [WIDTH, WIDTH]}),
    "int8": (eight_bits, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
    "nf4": (four_bits, {"quant_method": "bitsandbytes", "load_in_4bit": True}),
}


def write(tiny_copy: TinyModel, factors: dict[str, Tensor], kind: str) -> Path:
    """Write a model whose first layer has four times the same head."""
    folder = tiny_copy("llama", hidden_size=WIDTH, head_dim=HEAD, num_key_value_heads=4)
    store, settings = FORMATS[kind]
    with edited_weights(folder) as tensors:
        for matrix, rows in factors.items():
            name = LAYER.format(matrix.lower())
            del tensors[name]
            weight = torch.cat([rows] * 4)
            prefix = name.removesuffix("weight")
            tensors |= {f"{prefix}{part}": each for part, each in store(weight.T if matrix == "O" else weight).items()}
    return with_config(folder, quantization_config=settings) if settings else folder


def ranks(folder: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """Read the numerical ranks of the first layer's first head and of the layer, each beside chance."""
    return {
        (row["head"], row["matrix"]): (row["numerical_rank"], row["numerical_rank_chance"])
        for head in ([], ["--head", "all"])
        for row in exported(folder, "ranks", "--layer", "0", *head, "--no-cache")
    }


@pytest.mark.parametrize("outlier", [1.0, 10.0])
@pytest.mark.parametrize("kind", FORMATS)
def test_planted_ranks_are_found(kind: str, outlier: float, tiny_copy: TinyModel) -> None:
    factors = {matrix: planted(rank, falling(rank, outlier), ord(matrix)) for matrix, rank in RANKS.items()}
    folder = write(tiny_copy, factors, kind)
    found = ranks(folder)
    for matrix, rank in RANKS.items():
        assert found["0", matrix] == (str(rank), "64.0"), matrix
    (row, *_) = exported(folder, "circuits", "--layer", "0", "--head", "0", "--no-cache")
    for matrix in ("Q", "K", "V", "O", "QK", "OV"):
        assert (row[f"rank_{matrix.lower()}"], row[f"rank_{matrix.lower()}_chance"]) == found["0", matrix]
    if kind != "float8" and (outlier == 1.0 or "float" in kind):  # elsewhere the circuits' noise hides some
        assert (found["0", "QK"][0], found["0", "OV"][0]) == ("20", "7")


@pytest.mark.parametrize(
    ("kind", "least"), [("float64", 1e-11), ("float32", 2e-6), ("bfloat16", 0.06), ("bfloat16 as float32", 0.06)]
)
def test_planted_directions_are_counted_down_to_the_noise(kind: str, least: float, tiny_copy: TinyModel) -> None:
    """In float64 and float32 the smallest are beyond what squares tell."""
    sigma = torch.logspace(0, float(torch.tensor(least).log10()), 20, dtype=torch.float64)
    factors = {matrix: planted(20, sigma, ord(matrix)) for matrix in "QKVO"}
    factors["K"] = planted(20, torch.ones(20, dtype=torch.float64), ord("K"))
    found = ranks(write(tiny_copy, factors, kind))
    assert {found["0", matrix][0] for matrix in ("Q", "K", "V", "O", "QK")} == {"20"}


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float8"])
def test_of_a_circuit_that_cancels_nothing_counts(kind: str, tiny_copy: TinyModel) -> None:
    """Queries fill one half of a head, keys the other; rounding leaves something on both sides."""
    turned = orthonormal(HEAD, HEAD, 9)
    query, key = (
        turned[:, half] @ orthonormal(WIDTH, 32, seed).T for half, seed in ((slice(32), 1), (slice(32, 64), 2))
    )
    found = ranks(write(tiny_copy, {"Q": query, "K": key}, kind))
    places = (("0", "Q"), ("0", "K"), ("0", "QK"), ("all", "QK"))
    assert [found[place][0] for place in places] == ["32", "32", "0", "0"]


BERT_LAYERS = {
    0: (531, 532, 553, 549, 345, 314),
    1: (538, 532, 554, 550, 381, 321),
    2: (523, 513, 550, 546, 404, 205),
    3: (541, 536, 546, 552, 419, 340),
}
"""Energy ranks of bert-base-uncased, ε = 0.01, by whole layer: Q, K, V, O, OV, QK."""

BERT_HEADS = {
    0: (61, 62, 62, 62, 59, 55),
    1: (63, 63, 63, 63, 62, 61),
    2: (63, 63, 63, 63, 63, 63),
    3: (62, 62, 62, 63, 61, 57),
    4: (60, 62, 63, 62, 59, 52),
    5: (63, 63, 63, 63, 63, 61),
    6: (60, 62, 63, 63, 61, 53),
    7: (62, 63, 63, 63, 61, 57),
    8: (63, 63, 63, 63, 61, 59),
    9: (63, 63, 63, 63, 62, 60),
}
"""The same of layer 0, by head."""


def snapshot(*names: str) -> Path:
    """Find the snapshot of a model that goes by one of several ids, or skip the test."""
    for name in names:
        folder = PERSONS_HUB_CACHE / f"models--{name.replace('/', '--')}"
        revision = folder / "refs" / "main"
        if revision.is_file():
            found = folder / "snapshots" / revision.read_text(encoding="utf-8").strip()
            if (found / "config.json").is_file():
                return found
    pytest.skip(f"{names[0]} is not in the local Hub cache, {PERSONS_HUB_CACHE}")


def energy_ranks(folder: Path, layer: int, *asked: str) -> dict[str, tuple[int, ...]]:
    """Export a layer's energy ranks: by head or ``all``, in the order of the published tables."""
    found: dict[str, dict[str, int]] = {}
    for row in exported(folder, "ranks", "--layer", str(layer), *asked, "--no-cache"):
        found.setdefault(row["head"], {})[row["matrix"]] = int(row["energy_rank"])
    return {head: tuple(ranks[each] for each in ("Q", "K", "V", "O", "OV", "QK")) for head, ranks in found.items()}


@pytest.mark.parametrize("layer", BERT_LAYERS)
def test_the_whole_layers_of_bert_have_the_published_ranks(layer: int) -> None:
    folder = snapshot("google-bert/bert-base-uncased", "bert-base-uncased")
    assert energy_ranks(folder, layer, "--head", "all") == {"all": BERT_LAYERS[layer]}


def test_the_first_heads_of_bert_have_the_published_ranks() -> None:
    ranks = energy_ranks(snapshot("google-bert/bert-base-uncased", "bert-base-uncased"), 0)
    assert {head: ranks[str(head)] for head in BERT_HEADS} == BERT_HEADS
