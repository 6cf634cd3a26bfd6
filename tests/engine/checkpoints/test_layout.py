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
from tests.exporting import attn_tui, rows_in

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


def separate(layers: int = 3) -> dict[str, Tensor]:
    """Make a state dict with names of its own."""
    torch.manual_seed(0)
    tensors: dict[str, Tensor] = {}
    for layer in range(layers):
        tensors |= {
            f"stack.{layer}.look.ask": torch.randn(HEADS * NARROW, WIDTH),
            f"stack.{layer}.look.offer": torch.randn(SHARED * NARROW, WIDTH),
            f"stack.{layer}.look.give": torch.randn(SHARED * NARROW, WIDTH),
            f"stack.{layer}.look.write": torch.randn(WIDTH, HEADS * NARROW),
            f"stack.{layer}.look.lean": torch.randn(HEADS * NARROW),
            f"stack.{layer}.think": torch.randn(WIDTH, WIDTH),
        }
    return tensors


def opened(place: Path, description: str, tmp_path: Path) -> Model:
    file = tmp_path / "layout.toml"
    file.write_text(description)
    return engine.open_model(place, layout=file)


@pytest.mark.parametrize("wrapping", [None, "state_dict", "model"])
def test_heads_are_cut_as_described(wrapping: str | None, tmp_path: Path) -> None:
    tensors = separate()
    if wrapping is None:
        place = tmp_path / "weights.safetensors"
        save_file(tensors, place)
    else:
        place = tmp_path / "checkpoint.pt"
        torch.save({wrapping: tensors, "step": 7}, place)
    model = opened(place, SEPARATE, tmp_path)
    assert [(layer.layer, layer.heads, layer.key_value_heads) for layer in model.outline.layers] == [
        (0, HEADS, SHARED), (1, HEADS, SHARED), (2, HEADS, SHARED),
    ]  # fmt: skip
    np.testing.assert_array_equal(model["L2H3"].W_Q, tensors["stack.2.look.ask"][18:])
    np.testing.assert_array_equal(model["L2H3"].W_K, tensors["stack.2.look.offer"][6:])
    np.testing.assert_array_equal(model["L2H3"].W_O, tensors["stack.2.look.write"][:, 18:])
    np.testing.assert_array_equal(model["L2H3"].b_Q, tensors["stack.2.look.lean"][18:])
    with pytest.raises(EngineError, match="no model to run"):
        model.attention("some words", "L0")


@pytest.mark.parametrize("fused", ["blocks", "grouped"])
def test_fused_and_transposed_weights_are_cut(fused: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight, output = torch.randn(WIDTH, (HEADS + 2 * SHARED) * NARROW), torch.randn(HEADS * NARROW, WIDTH)
    save_file({"h0.all": weight, "h0.out": output}, tmp_path / "weights.safetensors")
    names = "".join(f'{name} = "h{{layer}}.all"\n' for name in ("query", "key", "value"))
    description = (
        f'heads = 4\n{names}output = "h{{layer}}.out"\nfused = "{fused}"\nstored = "in_out"\nstack = "encoder"\n'
    )
    arrays = opened(tmp_path / "weights.safetensors", description, tmp_path)["L0H3"].arrays()
    block = {"blocks": (3, 5, 7), "grouped": (5, 6, 7)}[fused]
    for place, matrix in zip(block, "QKV", strict=True):
        expected = weight[:, place * NARROW : (place + 1) * NARROW].T
        np.testing.assert_array_equal(arrays[f"W_{matrix}"], expected)
    np.testing.assert_array_equal(arrays["W_O"], output[18:].T)


def test_several_stacks_are_several_tables(tmp_path: Path) -> None:
    save_file(separate(), tmp_path / "weights.safetensors")
    table = SEPARATE.replace("[bias]", "[attention.bias]")
    description = f'[[attention]]\nstack = "encoder"\n{table}\n[[attention]]\nstack = "decoder"\n{table}'
    session = opened(tmp_path / "weights.safetensors", description, tmp_path)
    assert session.outline.stacks == ("encoder", "decoder")
    assert len(session.outline.layers) == 6


def test_the_command_line_takes_a_description(tmp_path: Path) -> None:
    tensors = separate()
    save_file(tensors, tmp_path / "weights.safetensors")
    (tmp_path / "layout.toml").write_text(SEPARATE)
    done = attn_tui(
        "export", tmp_path / "weights.safetensors", "ranks", "--layout", tmp_path / "layout.toml",
        "--head", "L1H2", "--matrix", "QK",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = rows_in(done.stdout)
    query, key = tensors["stack.1.look.ask"][12:18].double(), tensors["stack.1.look.offer"][6:].double()
    assert float(row["spectral_norm"]) == pytest.approx(float(torch.linalg.svdvals(query.T @ key)[0]))
    done = attn_tui("export", tmp_path / "weights.safetensors", "ranks")
    assert done.returncode == 1
    assert "--layout" in done.stderr


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        ("heads = ", "cannot be read as TOML"),
        (SEPARATE.replace("heads = 4", ""), "give heads"),
        (SEPARATE.replace("heads = 4", "heads = 0"), "above zero"),
        (SEPARATE.replace("heads = 4", "heads = true"), "above zero"),
        (SEPARATE.replace("heads = 4", "heads = 5"), "5 heads"),
        (SEPARATE.replace("heads = 4", "heads = 4\nkey_value_heads = 4"), "the shapes say 2"),
        (SEPARATE.replace("{layer}.look.give", "0.look.give"), "give value"),
        (SEPARATE.replace("look.ask", "looks.ask"), "no tensor is called"),
        (SEPARATE.replace("look.give", "look.gives"), "there is no tensor stack.0.look.gives"),
        (SEPARATE.replace("heads = 4", 'heads = 4\nstack = "middle"'), "stack must be one of"),
        (SEPARATE.replace("heads = 4", 'heads = 4\nfused = "blocks"'), "fused needs one tensor"),
        (SEPARATE.replace("heads = 4", "heads = 4\nqueries = 1"), "'queries' is not known"),
        (SEPARATE.replace("look.lean", "look.ask"), "has shape"),
        (SEPARATE.replace("[bias]", 'stored = "in_out"\n[bias]'), "check stored"),
        (
            "[[attention]]"
            + SEPARATE.replace("[bias]", "[attention.bias]")
            + "[[attention]]"
            + SEPARATE.partition("[")[0],
            "two tables describe the stack decoder",
        ),
    ],
)
def test_an_error_of_a_description_is_named(description: str, reason: str, tmp_path: Path) -> None:
    save_file(separate(), tmp_path / "weights.safetensors")
    with pytest.raises(EngineError, match=reason):
        opened(tmp_path / "weights.safetensors", description, tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"nowhere\.toml"):
        engine.open_model(tmp_path, layout=tmp_path / "nowhere.toml")
    with pytest.raises(EngineError, match=r"there is no .*nowhere\.safetensors"):
        opened(tmp_path / "nowhere.safetensors", SEPARATE, tmp_path)
