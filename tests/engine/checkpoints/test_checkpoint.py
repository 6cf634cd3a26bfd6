"""Every form of weight file gives the same heads; a damaged, hostile or foreign one gives one clear line instead."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import conversion_mapping
from transformers.core_model_loading import WeightRenaming

from engine.architectures.heads import read_layer
from engine.architectures.tensors import Tensors
from engine.checkpoints import transformers_library
from engine.values.errors import EngineError
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.opening import open_folder, open_reader, refusal, run_apart, with_config
from tests.tiny_configurations import save_tiny

FIRST, SECOND = Head("decoder", 0), Head("decoder", 1)


def as_sharded(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as safetensors in three files with an index."""
    _sharded(folder, weights, "model-{:05d}-of-00003.safetensors", "model.safetensors.index.json", save_file)


def as_bin(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as one PyTorch file."""
    torch.save(weights, folder / "pytorch_model.bin")


def as_sharded_bin(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as three PyTorch files with an index."""
    _sharded(folder, weights, "pytorch_model-{:05d}-of-00003.bin", "pytorch_model.bin.index.json", torch.save)


def as_bin_of_old(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as PyTorch did before version 1.6; many early models on the Hub are such."""
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def as_both(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as safetensors, beside a PyTorch file of something else."""
    save_file(weights, folder / "model.safetensors")
    torch.save({"other": torch.zeros(1)}, folder / "pytorch_model.bin")


def _sharded(
    folder: Path, weights: dict[str, Tensor], pattern: str, index: str, save: Callable[[Any, Path], None]
) -> None:
    """Deal tensors out to three files, so that a layer's projections are not together."""
    places = {name: pattern.format(place % 3 + 1) for place, name in enumerate(sorted(weights))}
    for file in set(places.values()):
        save({name: weights[name] for name in places if places[name] == file}, folder / file)
    (folder / index).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def stored_weights(folder: Path) -> dict[str, Tensor]:
    """Take the weights out of a folder's only weight file, which is then gone."""
    file = folder / "model.safetensors"
    weights: dict[str, Tensor] = load_file(file)
    file.unlink()
    return {name: weight.clone() for name, weight in weights.items()}


@pytest.mark.parametrize("write", [as_sharded, as_bin, as_sharded_bin, as_bin_of_old, as_both])
def test_every_form_of_file_gives_the_same_heads(
    write: Callable[[Path, dict[str, Tensor]], None], tiny_copy: TinyModel, tiny_model: TinyModel
) -> None:
    folder = tiny_copy("llama")
    write(folder, stored_weights(folder))
    _, checkpoint, anatomy = open_folder(folder)
    _, expected_checkpoint, expected = open_folder(tiny_model("llama"))
    assert anatomy.outline.layers == expected.outline.layers
    assert checkpoint.entries == expected_checkpoint.entries
    assert anatomy.outline.stored_bytes == expected.outline.stored_bytes
    for name, module in anatomy.modules.items():
        ours, theirs = read_layer(checkpoint, module), read_layer(expected_checkpoint, expected.modules[name])
        for head in range(4):
            for matrix, weight in theirs.of_head(head).items():
                torch.testing.assert_close(ours.of_head(head)[matrix], weight, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_weights_are_read_as_they_are_stored(dtype: torch.dtype, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2")
    weights = {name: weight.to(dtype) for name, weight in stored_weights(folder).items()}
    save_file(weights, folder / "model.safetensors")
    _, checkpoint, anatomy = open_folder(folder)
    layer = read_layer(checkpoint, anatomy.modules[FIRST])
    assert anatomy.outline.dtype == str(dtype).removeprefix("torch.")
    assert set(layer.epsilons["Q"]) == {torch.finfo(dtype).eps}
    fused = weights["h.0.attn.c_attn.weight"]  # Conv1D: (in, out), queries first
    torch.testing.assert_close(layer.query[1], fused[:, 8:16].T, rtol=0, atol=0)


HUGE = """
import sys
from pathlib import Path
from engine.checkpoints.source import FolderSource
from engine.checkpoints.locate import locate
source = FolderSource(locate(sys.argv[1]))
checkpoint, anatomy = source.tensors, source.anatomy
print(anatomy.outline.stored_bytes // 10**9, len(anatomy.modules), "torch" in sys.modules)
from engine.architectures.heads import read_layer
print(tuple(read_layer(checkpoint, list(anatomy.modules.values())[31]).query.shape))
lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(lines["VmHWM"].split()[0]) / 2**20)  # of this process; what getrusage says begins with its parent's
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much memory a process has had")
def test_a_large_model_is_opened_without_torch_and_one_layer_read_without_the_others(
    tiny_copy: TinyModel,
) -> None:
    folder = tiny_copy("llama")
    with_config(
        folder, num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=32, head_dim=128
    )
    shapes = {f"layers.{layer}.self_attn.{name}_proj.weight": (4096, 4096) for layer in range(32) for name in "qkvo"}
    shapes |= {f"layers.{layer}.mlp.{name}.weight": (11008, 4096) for layer in range(32) for name in ("up", "gate")}
    header, place = {}, 0
    for name, (rows, cols) in shapes.items():
        size = 4 * rows * cols
        header[name] = {"dtype": "F32", "shape": [rows, cols], "data_offsets": [place, place + size]}
        place += size
    written = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(written).to_bytes(8, "little") + written)
        file.truncate(8 + len(written) + place)  # the weights are a hole: 20 GB that take no room on the disk
    outline, layer, gigabytes = run_apart(HUGE, folder).splitlines()
    assert outline == "20 32 False"
    assert layer == "(32, 128, 4096)"
    assert float(gigabytes) < 2


class Hostile:
    """What a malicious pickle does when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        """Write a file."""
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_malicious_pickle_is_refused_and_not_executed(zipped: bool, tiny_copy: TinyModel, tmp_path: Path) -> None:
    folder, mark = tiny_copy("llama"), tmp_path / "executed"
    content = {**stored_weights(folder), "payload": Hostile(mark)}
    torch.save(content, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    assert "pytorch_model.bin" in refusal(folder)
    assert not mark.exists()


def test_a_plain_pickle_is_refused_and_not_executed(tiny_copy: TinyModel, tmp_path: Path) -> None:
    folder, mark = tiny_copy("llama"), tmp_path / "executed"
    stored_weights(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Hostile(mark)))
    assert "pytorch_model.bin" in refusal(folder)
    assert not mark.exists()


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, 0.999])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_cut_short_is_named(name: str, kept: float, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    if name.endswith(".bin"):
        as_bin(folder, stored_weights(folder))
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(kept * len(content)) if kept < 1 else int(kept)])
    line = refusal(folder)
    assert name in line
    assert "again" in line


def test_a_file_cut_short_after_opening_is_named(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    _, checkpoint, anatomy = open_folder(folder)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(EngineError, match=r"model\.safetensors"):
        read_layer(checkpoint, anatomy.modules[SECOND])


def test_a_missing_shard_is_named(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    as_sharded(folder, stored_weights(folder))
    (folder / "model-00002-of-00003.safetensors").unlink()
    line = refusal(folder)
    assert "model-00002-of-00003.safetensors" in line
    assert "which model.safetensors.index.json lists, is not in" in line


def test_a_shard_without_a_tensor_that_the_index_promises_is_no_smaller_model(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    as_sharded(folder, stored_weights(folder))
    promised = "layers.1.self_attn.q_proj.weight"
    shard = folder / json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"][promised]
    save_file({name: weight for name, weight in load_file(shard).items() if name != promised}, shard)
    assert promised in refusal(folder)


INDEXES = ["", "not JSON", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": [1]}}',
           '{"weight_map": {"a": null, "b": "c"}}', '{"weight_map": {}}', "\udcff"]  # fmt: skip


@pytest.mark.parametrize("index", INDEXES)
def test_a_damaged_index_is_named(index: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    as_sharded(folder, stored_weights(folder))
    (folder / "model.safetensors.index.json").write_bytes(index.encode("utf-8", "surrogateescape"))
    assert "model.safetensors.index.json" in refusal(folder)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_quantised_weights_are_refused_by_their_dtype(dtype: torch.dtype, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    weights = {name: (10 * weight).to(dtype) for name, weight in stored_weights(folder).items()}
    save_file(weights, folder / "model.safetensors")
    _, checkpoint, anatomy = open_folder(folder)
    with pytest.raises(EngineError, match=str(dtype).removeprefix("torch.")):
        read_layer(checkpoint, anatomy.modules[FIRST])


@pytest.mark.parametrize("shape", [(), (3,), (2, 16)])
def test_a_bias_of_the_wrong_size_is_named(shape: tuple[int, ...], tiny_copy: TinyModel) -> None:
    folder = tiny_copy("qwen2")
    weights = stored_weights(folder)
    name = "layers.0.self_attn.k_proj.bias"
    save_file({**weights, name: torch.zeros(shape)}, folder / "model.safetensors")
    with pytest.raises(EngineError, match=name):
        read_layer(*_parts(folder))


def _parts(folder: Path) -> tuple[Tensors, Any]:
    """Open a folder and pick its first layer."""
    _, checkpoint, anatomy = open_folder(folder)
    return checkpoint, anatomy.modules[FIRST]


@pytest.mark.parametrize("name", ["layers.0.self_attn.q_proj.weight", "layers.1.self_attn.o_proj.weight"])
def test_a_projection_that_is_no_matrix_is_named(name: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    weights = stored_weights(folder)
    save_file({**weights, name: torch.zeros(32)}, folder / "model.safetensors")
    assert name in refusal(folder)


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

    plain = save_tiny("llama", tmp_path / "plain")
    folder = strange(save_tiny("llama", tmp_path / "strange"))
    rename_from_now_on(monkeypatch)
    monkeypatch.setattr(transformers_library, "whole_model", refused)
    assert_same_heads(folder, plain)


def test_the_whole_model_is_loaded_where_the_conversion_is_not_as_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = save_tiny("llama", tmp_path / "plain")
    folder = strange(save_tiny("llama", tmp_path / "strange"))
    rename_from_now_on(monkeypatch)

    def moved(*arguments: Any) -> Any:
        raise ImportError("cannot import name 'rename_source_key'")

    monkeypatch.setattr(transformers_library, "_convert_names", moved)
    assert_same_heads(folder, plain)


def test_names_that_nothing_converts_are_declined(tmp_path: Path) -> None:
    folder = strange(save_tiny("mistral", tmp_path / "model"))
    with pytest.raises(EngineError, match="no query, key, value and output projections"):
        open_folder(folder)


@pytest.mark.parametrize("model_type", ["molmo2_text", "nomic_bert", "tipsv2_text_model"])
def test_converted_weights_are_those_of_the_loaded_model(model_type: str, tmp_path: Path) -> None:
    folder = save_tiny(model_type, tmp_path / "model")
    _, tensors, anatomy = open_folder(folder)
    model: Any = transformers.AutoModel.from_pretrained(folder)
    module = anatomy.modules[Head(anatomy.outline.stacks[0], 1)]
    ours = read_layer(tensors, module)
    attention = open_reader(folder).modules[module.outline.name]
    own = dict(attention.named_parameters())
    value = next(tensor for name, tensor in own.items() if name in ("v_proj.weight", "value.weight"))
    torch.testing.assert_close(ours.value.flatten(0, 1), value.detach(), rtol=0, atol=0)
    assert type(model).__name__.endswith("Model")
