"""Every format of weight file gives the same heads; a damaged, hostile or foreign one gives one clear line."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import conversion_mapping
from transformers.core_model_loading import WeightRenaming

from engine.architectures.heads import read_layer
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


def as_old_bin(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as PyTorch did before version 1.6, in which many early models on the Hub are stored."""
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
    """Read the weights of a folder's only weight file, and delete it."""
    file = folder / "model.safetensors"
    weights: dict[str, Tensor] = load_file(file)
    file.unlink()
    return {name: weight.clone() for name, weight in weights.items()}


def assert_same_heads(folder: Path, expected: Path) -> None:
    """Compare every head of two folders, bit by bit."""
    _, tensors, anatomy = open_folder(folder)
    _, expected_tensors, expected_anatomy = open_folder(expected)
    assert anatomy.outline.layers == expected_anatomy.outline.layers
    assert anatomy.outline.stored_bytes == expected_anatomy.outline.stored_bytes
    for layer, module in expected_anatomy.modules.items():
        ours, theirs = read_layer(tensors, anatomy.modules[layer]), read_layer(expected_tensors, module)
        for head in range(module.outline.heads):
            for name, matrix in theirs.of_head(head).items():
                torch.testing.assert_close(ours.of_head(head)[name], matrix, rtol=0, atol=0)


@pytest.mark.parametrize("write", [as_sharded, as_bin, as_sharded_bin, as_old_bin, as_both])
def test_every_format_of_file_gives_the_same_heads(
    write: Callable[[Path, dict[str, Tensor]], None], tiny_copy: TinyModel, tiny_model: TinyModel
) -> None:
    folder = tiny_copy("llama")
    write(folder, stored_weights(folder))
    assert open_folder(folder)[1].entries == open_folder(tiny_model("llama"))[1].entries
    assert_same_heads(folder, tiny_model("llama"))


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
print(int(lines["VmHWM"].split()[0]) / 2**20)  # getrusage would start from the parent's peak
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak memory of a process")
def test_a_large_model_opens_without_torch_and_one_layer_is_read_without_the_others(tiny_copy: TinyModel) -> None:
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
        file.truncate(8 + len(written) + place)  # 20 GB of weights in a sparse file
    outline, layer, gigabytes = run_apart(HUGE, folder).splitlines()
    assert outline == "20 32 False"
    assert layer == "(32, 128, 4096)"
    assert float(gigabytes) < 2


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        """Write the file."""
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("form", ["archive", "old", "plain pickle"])
def test_a_malicious_pickle_is_refused_and_not_executed(form: str, tiny_copy: TinyModel, tmp_path: Path) -> None:
    folder, mark = tiny_copy("llama"), tmp_path / "executed"
    content, file = {**stored_weights(folder), "payload": Hostile(mark)}, folder / "pytorch_model.bin"
    if form == "plain pickle":
        file.write_bytes(pickle.dumps(Hostile(mark)))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=form == "archive")
    assert "pytorch_model.bin" in refusal(folder)
    assert not mark.exists()


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, 0.999])
def test_a_file_cut_short_is_named(kept: float, tiny_copy: TinyModel) -> None:
    file = tiny_copy("llama") / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content)) if kept < 1 else int(kept)])
    line = refusal(file.parent)
    assert file.name in line
    assert "again" in line


def test_a_tensor_that_the_index_lists_and_no_shard_holds_is_named(tiny_copy: TinyModel) -> None:
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
def test_a_dtype_that_is_no_plain_float_is_named(dtype: torch.dtype, tiny_copy: TinyModel) -> None:
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
    assert name in refusal(folder)


@pytest.mark.parametrize("name", ["layers.0.self_attn.q_proj.weight", "layers.1.self_attn.o_proj.weight"])
def test_a_projection_that_is_no_matrix_is_named(name: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    weights = stored_weights(folder)
    save_file({**weights, name: torch.zeros(32)}, folder / "model.safetensors")
    assert name in refusal(folder)


def strange(folder: Path) -> Path:
    """Rename a model's projections in the file so that no rule finds them."""
    file = folder / "model.safetensors"
    tensors = {name.replace("self_attn.", "self_attn.strange_"): each for name, each in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(("missing", "error"), [("whole_model", AssertionError), ("_convert_names", ImportError)])
def test_renamed_tensors_are_converted_one_at_a_time_or_else_by_loading_the_whole_model(
    missing: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = save_tiny("llama", tmp_path / "plain")
    folder = strange(save_tiny("llama", tmp_path / "strange"))  # transformers would rename the tensors back on saving
    monkeypatch.setattr(conversion_mapping, "_checkpoint_conversion_mapping_cache", None)
    renaming = WeightRenaming("self_attn.strange_", "self_attn.")
    conversion_mapping.register_checkpoint_conversion_mapping("llama", [renaming], overwrite=True)

    def fail(*arguments: Any) -> Any:
        raise error

    monkeypatch.setattr(transformers_library, missing, fail)
    assert_same_heads(folder, plain)


def test_names_that_nothing_converts_are_declined(tmp_path: Path) -> None:
    folder = strange(save_tiny("mistral", tmp_path / "model"))
    with pytest.raises(EngineError, match="no query, key, value and output projections"):
        open_folder(folder)


@pytest.mark.parametrize("model_type", ["molmo2_text", "nomic_bert", "tipsv2_text_model"])
def test_converted_weights_are_those_of_the_loaded_model(model_type: str, tmp_path: Path) -> None:
    folder = save_tiny(model_type, tmp_path / "model")
    _, tensors, anatomy = open_folder(folder)
    module = anatomy.modules[Head(anatomy.outline.stacks[0], 1)]
    own = dict(open_reader(folder).modules[module.outline.name].named_parameters())
    value = next(tensor for name, tensor in own.items() if name in ("v_proj.weight", "value.weight"))
    torch.testing.assert_close(read_layer(tensors, module).value.flatten(0, 1), value.detach(), rtol=0, atol=0)
