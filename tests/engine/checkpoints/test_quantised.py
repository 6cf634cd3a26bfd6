"""Block-scaled float8 is read as what it stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.architectures.heads import read_layer
from engine.values.errors import EngineError
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.opening import open_folder, with_config

BLOCK = (12, 20)
"""Divides neither side of the projections, so that the last blocks are cut off."""


def quantise(folder: Path, block: tuple[int, int] = BLOCK) -> dict[str, torch.Tensor]:
    """Store the projections of a folder as float8 with scales; give what they then stand for."""
    file = folder / "model.safetensors"
    tensors, meant = load_file(file), {}
    for name, weight in list(tensors.items()):
        if "_proj" not in name or "self_attn" not in name:
            continue
        rows, columns = weight.shape
        scales = torch.zeros(-(-rows // block[0]), -(-columns // block[1]))
        stored = torch.zeros_like(weight)
        for i in range(scales.shape[0]):
            for j in range(scales.shape[1]):
                place = slice(i * block[0], (i + 1) * block[0]), slice(j * block[1], (j + 1) * block[1])
                scales[i, j] = weight[place].abs().max() / 448
                stored[place] = weight[place] / scales[i, j]
        tensors[name] = stored.to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = scales
        whole = torch.zeros_like(weight)
        for row in range(rows):
            for column in range(columns):
                scale = scales[row // block[0], column // block[1]]
                whole[row, column] = tensors[name][row, column].float() * scale
        meant[name] = whole
    save_file(tensors, file, metadata={"format": "pt"})
    with_config(folder, quantization_config={"quant_method": "fp8", "weight_block_size": list(block)})
    return meant


def test_float8_weights_are_read_with_their_scales(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    meant = quantise(folder)
    assert len(meant) == 8
    _, checkpoint, anatomy = open_folder(folder)
    for number in (0, 1):
        module = anatomy.modules[Head("decoder", number)]
        weights = read_layer(checkpoint, module)
        query = meant[module.weights["Q"]]
        torch.testing.assert_close(weights.query.flatten(0, 1), query, rtol=0, atol=0)
        output = meant[module.weights["O"]]
        torch.testing.assert_close(weights.output.permute(1, 0, 2).flatten(1), output, rtol=0, atol=0)
    (row,) = exported(folder, "ranks", "--head", "L1H2", "--matrix", "Q")
    query = meant[anatomy.modules[Head("decoder", 1)].weights["Q"]].double().unflatten(0, (4, -1))[2]
    sigma = torch.linalg.svdvals(query)
    assert float(row["spectral_norm"]) == pytest.approx(float(sigma[0]), rel=1e-5)


def test_scales_that_do_not_fit_are_refused(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    quantise(folder)
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    with_config(folder, quantization_config={**config, "weight_block_size": [4, 4]})
    _, checkpoint, anatomy = open_folder(folder)
    with pytest.raises(EngineError, match="does not fit"):
        read_layer(checkpoint, anatomy.modules[Head("decoder", 0)])
