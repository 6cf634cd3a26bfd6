"""Quantised weights are decoded."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.architectures.heads import read_layer
from engine.values.errors import EngineError
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.opening import edited_weights, open_folder, refusal, with_config

BLOCK = (12, 20)
"""Divides neither side of the projections, so that the last blocks are smaller."""

GROUP = 8
"""Inputs that share a scale, of GPTQ and AWQ."""

AWQ_PLACES = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight neighbours is in the lowest four bits of a word, in the next four, and so on."""

FOUR_BIT_LEVELS = torch.tensor([*(-1.0 + place / 8 for place in range(8)), *(place / 7 for place in range(8))])

Parts = dict[str, Tensor]
Pack = Callable[[Tensor], tuple[Parts, Tensor]]


def word(numbers: list[int], bits: int) -> int:
    """Pack numbers into a signed word of 32 bits, the first one lowest."""
    value = sum(number << (bits * place) for place, number in enumerate(numbers))
    return value - 2**32 if value >= 2**31 else value


def float8(weight: Tensor) -> tuple[Parts, Tensor]:
    """Store a weight as float8 with a scale for each block; return the decoded values too."""
    rows, columns = weight.shape
    scales = torch.zeros(-(-rows // BLOCK[0]), -(-columns // BLOCK[1]))
    stored, meant = torch.zeros_like(weight).to(torch.float8_e4m3fn), torch.zeros_like(weight)
    for i, j in np.ndindex(*scales.shape):
        place = slice(i * BLOCK[0], (i + 1) * BLOCK[0]), slice(j * BLOCK[1], (j + 1) * BLOCK[1])
        scales[i, j] = weight[place].abs().max() / 448
        stored[place] = (weight[place] / scales[i, j]).to(torch.float8_e4m3fn)
        meant[place] = stored[place].float() * scales[i, j]
    return {"weight": stored, "weight_scale_inv": scales}, meant


def grouped(weight: Tensor, bits: int, group: Tensor, least: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw scales and zeros of each group of inputs, and numbers; return the decoded values of [out, in] too."""
    outputs, inputs = weight.shape
    scales = torch.rand(inputs // GROUP, outputs) * 0.1 + 0.01
    zeros = torch.randint(least, 2**bits, (inputs // GROUP, outputs))
    numbers = torch.randint(0, 2**bits, (inputs, outputs))
    return scales, zeros, numbers, (scales[group] * (numbers - zeros[group])).T


def gptq(weight: Tensor, bits: int) -> tuple[Parts, Tensor]:
    """Pack a weight [out, in] as GPTQ does, with inputs grouped in any order; return the decoded values too."""
    outputs, inputs = weight.shape
    group = torch.randperm(inputs, generator=torch.Generator().manual_seed(0)) % (inputs // GROUP)
    scales, zeros, numbers, meant = grouped(weight, bits, group, 1)
    each = 32 // bits
    down = [[word(numbers[i : i + each, o].tolist(), bits) for o in range(outputs)] for i in range(0, inputs, each)]
    across = [
        [word((zeros[g, o : o + each] - 1).tolist(), bits) for o in range(0, outputs, each)] for g in range(len(zeros))
    ]
    parts = {"qweight": torch.tensor(down), "qzeros": torch.tensor(across), "scales": scales, "g_idx": group}
    return {name: each.int() if not each.is_floating_point() else each for name, each in parts.items()}, meant


def awq(weight: Tensor) -> tuple[Parts, Tensor]:
    """Pack a weight [out, in] as AWQ does for its matrix kernels; return the decoded values too."""
    outputs, inputs = weight.shape
    scales, zeros, numbers, meant = grouped(weight, 4, torch.arange(inputs) // GROUP, 0)

    def packed(rows: Tensor) -> Tensor:
        lines = [[word([int(row[o + place]) for place in AWQ_PLACES], 4) for o in range(0, outputs, 8)] for row in rows]
        return torch.tensor(lines).int()

    return {"qweight": packed(numbers), "qzeros": packed(zeros), "scales": scales}, meant


def rewrite(folder: Path, pack: Pack, **settings: Any) -> dict[str, Tensor]:
    """Pack the attention projections of a folder; return their decoded values."""
    meant = {}
    with edited_weights(folder) as tensors:
        for name in [each for each in tensors if "self_attn" in each and each.endswith("_proj.weight")]:
            parts, meant[name] = pack(tensors.pop(name))
            tensors |= {f"{name.removesuffix('weight')}{part}": tensor for part, tensor in parts.items()}
    with_config(folder, quantization_config=settings)
    return meant


def four_bits(weight: Tensor, nested: bool) -> tuple[Parts, Tensor]:
    """Pack a weight as bitsandbytes does: blocks of numbers from a table, two in a byte."""
    block, nested_block, offset = 16, 8, 0.25
    count = weight.numel()
    numbers = torch.randint(0, 16, (count,))
    levels, level_table = torch.randint(0, 256, (count // block,)), torch.linspace(-1, 1, 256)
    of_levels = torch.rand(-(-count // block // nested_block)) + 0.5
    scales = torch.rand(count // block) + 0.1
    if nested:
        scales = level_table[levels] * of_levels.repeat_interleave(nested_block)[: count // block] + offset
    meant = (FOUR_BIT_LEVELS[numbers] * scales.repeat_interleave(block)).reshape(weight.shape)
    state = {"quant_type": "nf4", "blocksize": block, "dtype": "float32", "shape": list(weight.shape)}
    parts: Parts = {"weight.quant_map": FOUR_BIT_LEVELS.clone()}
    if nested:
        state |= {"nested_blocksize": nested_block, "nested_dtype": "float32", "nested_offset": offset}
        parts |= {"weight.nested_absmax": of_levels, "weight.nested_quant_map": level_table}
        parts["weight.absmax"] = levels.byte()
    else:
        parts["weight.absmax"] = scales
    parts["weight"] = (numbers[::2] * 16 + numbers[1::2]).byte()[:, None]
    parts["weight.quant_state.bitsandbytes__nf4"] = torch.tensor(list(json.dumps(state).encode())).byte()
    return parts, meant


def eight_bits(weight: Tensor) -> tuple[Parts, Tensor]:
    """Pack a weight as bitsandbytes does in eight bits: each row with its largest number."""
    stored = torch.randint(-127, 128, tuple(weight.shape)).to(torch.int8)
    largest = torch.rand(len(weight)) + 0.1
    return {"weight": stored, "SCB": largest}, stored.float() * largest[:, None] / 127


FLOAT8: dict[str, Any] = {"quant_method": "fp8", "weight_block_size": list(BLOCK)}

PACKED: list[tuple[Pack, dict[str, Any], str]] = [
    (float8, FLOAT8, "float8_e4m3fn"),
    *((partial(gptq, bits=bits), {"quant_method": "gptq", "bits": bits, "group_size": GROUP}, f"int{bits}")
      for bits in (2, 4, 8)),
    (awq, {"quant_method": "awq", "bits": 4, "version": "gemm"}, "int4"),
    (partial(four_bits, nested=False), {"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
    (partial(four_bits, nested=True), {"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
    (eight_bits, {"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
]  # fmt: skip


@pytest.mark.parametrize(("pack", "settings", "dtype"), PACKED)
def test_packed_weights_are_decoded(pack: Pack, settings: dict[str, Any], dtype: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    meant, rtol = rewrite(folder, pack, **settings), 0 if pack is float8 else 1e-6
    assert len(meant) == 8
    _, tensors, anatomy = open_folder(folder)
    assert anatomy.outline.dtype == dtype
    for number in (0, 1):
        module = anatomy.modules[Head("decoder", number)]
        weights = read_layer(tensors, module)
        stacked = {"Q": weights.query.flatten(0, 1), "K": weights.key.flatten(0, 1), "V": weights.value.flatten(0, 1)}
        for matrix, found in (stacked | {"O": weights.output.permute(1, 0, 2).flatten(1)}).items():
            torch.testing.assert_close(found, meant[module.weights[matrix]], rtol=rtol, atol=rtol / 10)
    (row,) = exported(folder, "ranks", "--head", "L1H2", "--matrix", "Q")
    query = meant[anatomy.modules[Head("decoder", 1)].weights["Q"]].double().unflatten(0, (4, -1))[2]
    assert float(row["spectral_norm"]) == pytest.approx(float(torch.linalg.svdvals(query)[0]), rel=1e-5)
    layer = exported(folder, "ranks", "--layer", "1", "--head", "all")  # its key/value heads are fewer than its heads
    largest = {row["matrix"]: float(row["spectral_norm"]) for row in layer}
    for matrix in "QKVO":
        whole = meant[f"layers.1.self_attn.{matrix.lower()}_proj.weight"].double()
        assert largest[matrix] == pytest.approx(float(torch.linalg.svdvals(whole)[0]), rel=1e-5)


def test_scales_that_do_not_fit_are_refused(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    rewrite(folder, float8, **FLOAT8 | {"weight_block_size": [4, 4]})
    _, tensors, anatomy = open_folder(folder)
    with pytest.raises(EngineError, match="does not fit"):
        read_layer(tensors, anatomy.modules[Head("decoder", 0)])


def test_plain_attention_beside_packed_experts_is_read(tiny_copy: TinyModel) -> None:
    folder = with_config(tiny_copy("gpt_oss"), quantization_config={"quant_method": "mxfp4"})
    expected = load_file(folder / "model.safetensors")
    _, tensors, anatomy = open_folder(folder)
    query = read_layer(tensors, anatomy.modules[Head("decoder", 0)]).query.flatten(0, 1)
    torch.testing.assert_close(query, expected["layers.0.self_attn.q_proj.weight"])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"quant_method": "hqq", "bits": 4}, "quantised with hqq"),
        ({"quant_method": "compressed-tensors", "bits": 4}, "quantised with compressed-tensors"),
        ({"quant_method": "gptq", "bits": 3}, "3 bits"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "gemv"),
    ],
)
def test_a_method_that_cannot_be_decoded_is_named(settings: dict[str, Any], reason: str, tiny_copy: TinyModel) -> None:
    assert reason in refusal(with_config(tiny_copy("llama"), quantization_config=settings))
