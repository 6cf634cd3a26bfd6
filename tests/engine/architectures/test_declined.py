"""A folder that holds no model with heads to cut is declined in one line that names it and says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.architectures.heads import read_layer
from engine.values.errors import EngineError
from engine.values.heads import Head
from tests import tiny_models
from tests.conftest import TinyModel
from tests.opening import open_folder, refusal, with_config


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", '"text"', "3", "\udcff\udcfe"])
def test_a_damaged_configuration_is_named(content: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    (folder / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_that_is_no_checkpoint_says_what_it_lacks(missing: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    (folder / missing).unlink()
    line = refusal(folder)
    assert str(folder) in line
    assert missing in line


@pytest.mark.parametrize("heads", [3, 5, 64, 1000])
def test_a_head_count_that_does_not_fit_the_weights_is_refused(heads: int, tiny_copy: TinyModel) -> None:
    line = refusal(with_config(tiny_copy("llama"), num_attention_heads=heads))
    assert f"{heads} heads" in line


def test_a_head_count_that_is_left_out_is_the_default_of_the_type_and_said_to_be(tiny_copy: TinyModel) -> None:
    folder = with_config(tiny_copy("opt", num_attention_heads=12, hidden_size=24), num_attention_heads=None)
    outline = open_folder(folder)[2].outline
    assert [layer.heads for layer in outline.layers] == [12, 12]
    assert "defaults of its type" in " ".join(outline.notes)


@pytest.mark.parametrize("heads", [0, -4, "four", [4]])
def test_a_configuration_without_a_usable_head_count_is_refused(heads: Any, tiny_copy: TinyModel) -> None:
    assert "num_attention_heads is" in refusal(with_config(tiny_copy("llama"), num_attention_heads=heads))


SMALL_STATE = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320}


@pytest.mark.parametrize(
    ("model_type", "settings", "reason"),
    [
        ("mamba", SMALL_STATE, "no softmax attention"),
        ("rwkv", {**SMALL_STATE, "attention_hidden_size": 32}, "no softmax attention"),
        ("fnet", {}, "no softmax attention"),
    ],
)
def test_an_architecture_without_heads_to_cut_is_declined_by_its_name(
    model_type: str, settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    tiny_models.build(tiny_models.configuration(model_type, **settings)).save_pretrained(tmp_path / "model")
    line = refusal(tmp_path / "model")
    assert f"'{model_type}'" in line
    assert reason in line


HYBRIDS: list[tuple[str, dict[str, Any]]] = [
    ("jamba", {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 9,
               "expert_layer_offset": 8, "mamba_d_state": 4, "mamba_dt_rank": 4}),
    ("lfm2", {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2}),
    ("olmo_hybrid", {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2}),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "settings"), HYBRIDS)
def test_layers_without_softmax_attention_are_left_out_and_the_others_keep_their_numbers(
    model_type: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    tiny_models.build(tiny_models.configuration(model_type, **settings)).save_pretrained(tmp_path / "model")
    _, _, anatomy = open_folder(tmp_path / "model")
    assert [layer.layer for layer in anatomy.outline.layers] == [1, 3]
    with pytest.raises(EngineError, match="no attention in layer 0"):
        anatomy.outline.layer(Head("decoder", 0))


def test_values_that_read_another_width_than_keys_are_refused_or_shown_as_they_are(tmp_path: Path) -> None:
    settings = {"intra_bottleneck_size": 16, "true_hidden_size": 16, "embedding_size": 32}
    tiny_models.build(tiny_models.configuration("mobilebert", **settings)).save_pretrained(tmp_path / "model")
    try:
        _, checkpoint, anatomy = open_folder(tmp_path / "model")
    except EngineError:
        assert "attention.self" in refusal(tmp_path / "model")
        return
    for name, module in anatomy.modules.items():
        weights = read_layer(checkpoint, module).of_head(0)
        shapes = {matrix: tuple(weights[f"W_{matrix}"].shape) for matrix in "QKVO"}
        assert shapes == {matrix: anatomy.outline.layer(name).shape(matrix, False) for matrix in "QKVO"}
