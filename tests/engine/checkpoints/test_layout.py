"""A bare state dict opens by a description of its names; errors of the description are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import engine
from engine.library import Model
from engine.values.errors import EngineError

HEADS, SHARED, NARROW, WIDTH = 4, 2, 6, 20

SEPARATE = """
heads = 4
query = "stack.{layer}.look.ask"
key = "stack.{layer}.look.offer"
value = "stack.{layer}.look.give"
output = "stack.{layer}.look.write"

[bias]
query = "stack.{layer}.look.lean"
"""


def separate() -> dict[str, Tensor]:
    """Make a state dict of three layers, with names of its own."""
    torch.manual_seed(0)
    shapes = {
        "look.ask": (HEADS * NARROW, WIDTH), "look.offer": (SHARED * NARROW, WIDTH), "look.lean": (HEADS * NARROW,),
        "look.give": (SHARED * NARROW, WIDTH), "look.write": (WIDTH, HEADS * NARROW), "think": (WIDTH, WIDTH),
    }  # fmt: skip
    return {f"stack.{layer}.{name}": torch.randn(shape) for layer in range(3) for name, shape in shapes.items()}


def opened(place: Path, description: str, tmp_path: Path) -> Model:
    file = tmp_path / "layout.toml"
    file.write_text(description)
    return engine.open_model(place, layout=file)


@pytest.mark.parametrize("wrapping", [None, "state_dict", "model"])
def test_heads_are_cut_as_described(wrapping: str | None, tmp_path: Path) -> None:
    tensors, place = separate(), tmp_path / ("weights.safetensors" if wrapping is None else "checkpoint.pt")
    if wrapping is None:
        save_file(tensors, place)
    else:
        torch.save({wrapping: tensors, "step": 7}, place)
    model = opened(place, SEPARATE, tmp_path)
    counts = [(layer.layer, layer.heads, layer.key_value_heads) for layer in model.outline.layers]
    assert counts == [(layer, HEADS, SHARED) for layer in range(3)]
    expected = {
        "W_Q": tensors["stack.2.look.ask"][18:], "W_K": tensors["stack.2.look.offer"][6:],
        "W_V": tensors["stack.2.look.give"][6:], "W_O": tensors["stack.2.look.write"][:, 18:],
        "b_Q": tensors["stack.2.look.lean"][18:],
    }  # fmt: skip
    assert model["L2H3"].arrays().keys() == expected.keys()
    for name, array in model["L2H3"].arrays().items():
        np.testing.assert_array_equal(array, expected[name])
    with pytest.raises(EngineError, match="no model to run"):
        model.attention("some words", "L0")


FUSED = """
heads = 4
query = "h{layer}.all"
key = "h{layer}.all"
value = "h{layer}.all"
output = "h{layer}.out"
stored = "in_out"
stack = "encoder"
"""


@pytest.mark.parametrize(("fused", "places"), [("blocks", (3, 5, 7)), ("grouped", (5, 6, 7))])
def test_fused_and_transposed_weights_are_cut(fused: str, places: tuple[int, int, int], tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight, output = torch.randn(WIDTH, (HEADS + 2 * SHARED) * NARROW), torch.randn(HEADS * NARROW, WIDTH)
    save_file({"h0.all": weight, "h0.out": output}, tmp_path / "weights.safetensors")
    description = f'fused = "{fused}"\n{FUSED}'
    arrays = opened(tmp_path / "weights.safetensors", description, tmp_path)["L0H3"].arrays()
    for place, matrix in zip(places, "QKV", strict=True):
        np.testing.assert_array_equal(arrays[f"W_{matrix}"], weight[:, place * NARROW : (place + 1) * NARROW].T)
    np.testing.assert_array_equal(arrays["W_O"], output[18:].T)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    save_file(separate(), tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


def test_several_stacks_are_several_tables(weights: Path, tmp_path: Path) -> None:
    table = SEPARATE.replace("[bias]", "[attention.bias]")
    description = f'[[attention]]\nstack = "encoder"\n{table}\n[[attention]]\nstack = "decoder"\n{table}'
    outline = opened(weights, description, tmp_path).outline
    assert outline.stacks == ("encoder", "decoder")
    assert len(outline.layers) == 6


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (SEPARATE, "heads = ", "cannot be read as TOML"),
        ("heads = 4", "", "give heads"),
        ("heads = 4", "heads = 0", "above zero"),
        ("heads = 4", "heads = true", "above zero"),
        ("heads = 4", "heads = 5", "5 heads"),
        ("heads = 4", "heads = 4\nkey_value_heads = 4", "the shapes say 2"),
        ("{layer}.look.give", "0.look.give", "give value"),
        ("look.ask", "looks.ask", "no tensor is called"),
        ("look.give", "look.gives", "there is no tensor stack.0.look.gives"),
        ("heads = 4", 'heads = 4\nstack = "middle"', "stack must be one of"),
        ("heads = 4", 'heads = 4\nfused = "blocks"', "fused needs one tensor"),
        ("heads = 4", "heads = 4\nqueries = 1", "'queries' is not known"),
        ("look.lean", "look.ask", "has shape"),
        ("[bias]", 'stored = "in_out"\n[bias]', "check stored"),
        (SEPARATE, 2 * f"[[attention]]{SEPARATE.partition('[')[0]}", "two tables describe the stack decoder"),
    ],
)
def test_an_error_of_a_description_is_named(old: str, new: str, reason: str, weights: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=reason):
        opened(weights, SEPARATE.replace(old, new), tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"nowhere\.toml"):
        engine.open_model(tmp_path, layout=tmp_path / "nowhere.toml")
    with pytest.raises(EngineError, match=r"there is no .*nowhere\.safetensors"):
        opened(tmp_path / "nowhere.safetensors", SEPARATE, tmp_path)
