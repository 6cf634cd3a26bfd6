"""Models spread over devices by accelerate: their weights come and go, their maps are those of the plain model.

There is no second device here, so weights wait on disk in place of main memory; the hooks that bring them are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.models.folder import FolderSource
from engine.models.heads import read_layer
from engine.models.load import input_device, load_model
from engine.models.locate import locate
from engine.models.proof import prove
from engine.models.sentence import Reader
from engine.models.source import Loaded
from engine.models.tokens import Tokenizer
from engine.values.memory import ACROSS_DEVICES
from tests.conftest import TinyModel
from tests.opening import no_hurry, open_reader

accelerate = pytest.importorskip("accelerate")

SENTENCE = "The cat sat on the mat, and Mary gave a drink to John."
TYPES = ("gpt2", "llama", "t5", "bert")


def spread_reader(folder: Path, offload: Path, **options: Any) -> Reader:
    """Load a folder's model as accelerate lays it out."""
    source = FolderSource(locate(str(folder)))
    model = load_model("tiny", folder, ACROSS_DEVICES, "float32", offload_folder=str(offload), **options)
    return Reader(source.anatomy, Loaded(model, Tokenizer.of_folder(folder), input_device(model)))


def half_on_disk(folder: Path) -> dict[str, Any]:
    """Leave main memory no more room than half of the weights take, so that the rest waits on disk."""
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {"max_memory": {"cpu": size // 2}}


@pytest.mark.parametrize("model_type", TYPES)
def test_maps_of_a_spread_model_are_those_of_the_plain_one(
    model_type: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = tiny_model(model_type, with_head=False)
    plain, spread = open_reader(folder, "float32"), spread_reader(folder, tmp_path, **half_on_disk(folder))
    waiting = [name for name, parameter in spread.model.named_parameters() if parameter.is_meta]
    assert waiting, "nothing waits on disk, so nothing is tested"
    for text in (SENTENCE, "Another one."):
        for reader in (plain, spread):
            reader.read(text, no_hurry)
        for layer in plain.modules:
            expected, found = plain.layer_maps(layer), spread.layer_maps(layer)
            np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-6)


def test_heads_of_a_spread_model_are_proven(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder = tiny_model("llama")
    reader = spread_reader(folder, tmp_path, **half_on_disk(folder))
    source = FolderSource(locate(str(folder)))
    seen = reader.observe(no_hurry)
    for name, module in source.anatomy.modules.items():
        proof = prove(module, read_layer(source.tensors, module), seen[name])
        assert proof.output.holds
        assert proof.scores.holds
