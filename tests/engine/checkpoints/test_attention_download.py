"""Downloads of a model's attention alone: the same numbers from a part of the bytes, and errors for the rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine import open_model
from engine.checkpoints.download import download_attention
from engine.surveys.tasks import OF_HEADS
from engine.values.errors import EngineError
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_checkpoint import stored_weights, write_shards
from tests.engine.checkpoints.test_quantised import FLOAT8, float8, rewrite


def attention_of(folder: Path, into: Path) -> int:
    """Write the attention of a model's folder into another, and give the number of bytes read of its weights."""
    into.mkdir()
    read = 0
    for each in folder.iterdir():
        if each.suffix != ".safetensors":
            shutil.copy(each, into)

    def read_range(file: str, begin: int, end: int) -> bytes:
        nonlocal read
        read += end - begin
        return (folder / file).read_bytes()[begin:end]

    sizes = {each.name: each.stat().st_size for each in folder.glob("*.safetensors")}
    assert download_attention("tiny", into, sizes, read_range, lambda **counts: None)
    return read


@pytest.mark.parametrize("model_type", ["gpt2", "t5", "deepseek_v3", "falcon", "fp8", "shards"])
def test_tables_of_heads_are_those_of_the_whole_model(model_type: str, tiny_copy: TinyModel, tmp_path: Path) -> None:
    folder = tiny_copy({"fp8": "qwen3", "shards": "gpt2"}.get(model_type, model_type))
    if model_type == "fp8":
        rewrite(folder, float8, **FLOAT8)
    if model_type == "shards":
        write_shards(folder, stored_weights(folder))
    read = attention_of(folder, tmp_path / "attention")
    assert read < sum(each.stat().st_size for each in folder.glob("*.safetensors"))
    whole, part = (open_model(each, use_cache=False) for each in (folder, tmp_path / "attention"))
    for table in sorted(OF_HEADS):
        assert part.table(table).equals(whole.table(table))


def test_the_rest_of_the_model_is_missing_and_not_zeros(tiny_model: TinyModel, tmp_path: Path) -> None:
    attention_of(tiny_model("gpt2"), tmp_path / "attention")
    model = open_model(tmp_path / "attention", use_cache=False)
    with pytest.raises(EngineError, match="lacks"):
        model.attention("The cat sat", "L0")
