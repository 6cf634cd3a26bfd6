"""Files whose tensors have other names than the model's modules are read by transformers' conversion, or whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import conversion_mapping
from transformers.core_model_loading import WeightRenaming

from engine.architectures.heads import read_layer
from engine.checkpoints import converted_tensors
from engine.values.errors import EngineError
from engine.values.heads import Head
from tests import tiny_models
from tests.opening import open_folder, open_reader
from tests.tiny_configurations import need_type, tiny_configuration


def saved(model_type: str, folder: Path) -> Path:
    """Save a tiny model of a type with its tokenizer."""
    return tiny_models.save(tiny_models.build(tiny_configuration(model_type)), folder)


def strange(folder: Path) -> Path:
    """Give a model's queries, keys and values names in the file that no rule knows."""
    file = folder / "model.safetensors"
    tensors = {name.replace("self_attn.", "self_attn.strange_"): each for name, each in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    return folder


def rename_from_now_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have transformers rename such tensors when it loads a Llama; when it saves one, it would rename them back."""
    monkeypatch.setattr(conversion_mapping, "_checkpoint_conversion_mapping_cache", None)
    renaming = WeightRenaming("self_attn.strange_", "self_attn.")
    conversion_mapping.register_checkpoint_conversion_mapping("llama", [renaming], overwrite=True)


def assert_same_heads(folder: Path, plain: Path) -> None:
    """Compare every head with those of a folder whose names are the usual ones."""
    _, tensors, anatomy = open_folder(folder)
    _, expected, usual = open_folder(plain)
    assert anatomy.outline.layers == usual.outline.layers
    for layer, module in usual.modules.items():
        ours, theirs = read_layer(tensors, anatomy.modules[layer]), read_layer(expected, module)
        for head in range(module.outline.heads):
            for name, matrix in theirs.of_head(head).items():
                torch.testing.assert_close(ours.of_head(head)[name], matrix, rtol=0, atol=0)


def test_one_tensor_at_a_time_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(directory: Path, **options: Any) -> Any:
        raise AssertionError("the whole model was loaded")

    plain = saved("llama", tmp_path / "plain")
    folder = strange(saved("llama", tmp_path / "strange"))
    rename_from_now_on(monkeypatch)
    monkeypatch.setattr(converted_tensors, "whole_model", refused)
    assert_same_heads(folder, plain)


def test_the_whole_model_is_loaded_where_the_conversion_is_not_as_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = saved("llama", tmp_path / "plain")
    folder = strange(saved("llama", tmp_path / "strange"))
    rename_from_now_on(monkeypatch)

    def moved(*arguments: Any) -> Any:
        raise ImportError("cannot import name 'rename_source_key'")

    monkeypatch.setattr(converted_tensors, "_convert_names", moved)
    assert_same_heads(folder, plain)


def test_names_that_nothing_converts_are_declined(tmp_path: Path) -> None:
    folder = strange(saved("mistral", tmp_path / "model"))
    with pytest.raises(EngineError, match="no query, key, value and output projections"):
        open_folder(folder)


@pytest.mark.parametrize("model_type", ["molmo2_text", "nomic_bert", "tipsv2_text_model"])
def test_converted_weights_are_those_of_the_loaded_model(model_type: str, tmp_path: Path) -> None:
    need_type(model_type)
    folder = saved(model_type, tmp_path / "model")
    _, tensors, anatomy = open_folder(folder)
    model: Any = transformers.AutoModel.from_pretrained(folder)
    module = anatomy.modules[Head(anatomy.outline.stacks[0], 1)]
    ours = read_layer(tensors, module)
    attention = open_reader(folder).modules[module.outline.name]
    own = dict(attention.named_parameters())
    value = next(tensor for name, tensor in own.items() if name in ("v_proj.weight", "value.weight"))
    torch.testing.assert_close(ours.value.flatten(0, 1), value.detach(), rtol=0, atol=0)
    assert type(model).__name__.endswith("Model")
