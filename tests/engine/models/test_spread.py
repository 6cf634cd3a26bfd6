"""Models spread over devices by accelerate: their weights come and go, and all that is shown is as in the plain model.

There is no second device here, so weights wait on disk in place of main memory, which the same hooks bring; and a
pretended GPU stands for the second device of weights that stay where they are.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from engine.analysis.open_model import OpenModel
from engine.architectures.heads import read_layer
from engine.checkpoints.locate import locate
from engine.checkpoints.source import FolderSource
from engine.models import attention_capture
from engine.models.loaded_model import cause_of_nan
from engine.models.loading import input_device, load_model, load_reader
from engine.models.proof import prove
from engine.models.reader import Reader
from engine.models.tokenizer import Tokenizer
from engine.values.errors import EngineError
from engine.values.heads import NOTHING_OFF, Off
from engine.values.memory import ACROSS_DEVICES
from engine.values.options import EngineOptions
from engine.values.table import Cell
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.engine.models.two_devices import computing, lay_out
from tests.opening import no_hurry, one_line, open_reader, worked_out

accelerate = pytest.importorskip("accelerate")

SENTENCE = "The cat sat on the mat, and Mary gave a drink to John."
TYPES = ("gpt2", "llama", "t5", "bert")


TABLES = ("predictions", "lens", "contributions", "explain", "ablation", "rollout")
"""Views that look into a model while it reads a sentence, or afterwards."""

OPTIONS = EngineOptions(device="cpu", dtype="float32", use_cache=False)


class Spread(FolderSource):
    """A folder whose model is laid out otherwise than in one place.

    Attributes
    ----------
    loaded : the model.
    """

    loaded: Any


def reader_of(source: Spread) -> Reader:
    """Read with the model as it is laid out."""
    words = Tokenizer.of_folder(source.location.directory)
    return Reader(source.anatomy, source.loaded, words, input_device(source.loaded))


@load_reader.register
def _(source: Spread, device: str, dtype: str) -> Reader:
    return reader_of(source)


def on_disk(folder: Path, offload: Path, **options: Any) -> Spread:
    """Load a folder's model as accelerate lays it out, where options leave no room for all of it."""
    source = Spread(locate(str(folder)))
    source.loaded = load_model("tiny", folder, ACROSS_DEVICES, "float32", offload_folder=str(offload), **options)
    waiting = [name for name, parameter in source.loaded.named_parameters() if parameter.is_meta]
    assert waiting, "nothing waits on disk, so nothing is tested"
    return source


def half_on_disk(folder: Path) -> dict[str, Any]:
    """Leave main memory no more room than half of the weights take, so that the rest waits on disk."""
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {"max_memory": {"cpu": size // 2}}


def rows(source: FolderSource, view: str) -> list[tuple[Cell, ...]]:
    """Work a table out for the sentence, of the first head where it is of heads' cells."""
    session = OpenModel(source, OPTIONS)
    layer = session.outline.attending_layers[-1].name if view == "explain" else None
    return [*map(tuple, worked_out(session, view, Query(text=SENTENCE, layer=layer)).rows)]


def assert_alike(found: list[tuple[Cell, ...]], expected: list[tuple[Cell, ...]]) -> None:
    """Compare two tables, numbers but for rounding."""
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-4, nan_ok=True)


@pytest.mark.parametrize("model_type", TYPES)
def test_maps_of_a_spread_model_are_those_of_the_plain_one(
    model_type: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = tiny_model(model_type, with_head=False)
    plain, spread = (
        open_reader(folder, "float32"),
        reader_of(on_disk(folder, tmp_path, **half_on_disk(folder))),
    )
    first = next(iter(plain.modules))
    for text, off in (
        (SENTENCE, NOTHING_OFF),
        ("Another one.", NOTHING_OFF),
        (SENTENCE, Off((replace(first, head=1),), True)),
    ):
        for reader in (plain, spread):
            reader.read(text, no_hurry, off)
        for layer in plain.modules:
            expected, found = plain.layer_maps(layer), spread.layer_maps(layer)
            np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-6)


@pytest.mark.parametrize("model_type", ["gpt2", "t5", "xlnet"])
def test_what_is_worked_out_where_all_weights_wait_is_as_in_the_plain_model(
    model_type: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = tiny_model(model_type, with_head=True)
    plain = FolderSource(locate(str(folder)))
    spread = on_disk(folder, tmp_path, device_map={"": "disk"})
    refused = {"xlnet": ("lens", "contributions", "explain", "ablation")}
    for view in (each for each in TABLES if each not in refused.get(model_type, ())):
        assert_alike(rows(spread, view), rows(plain, view))
    reader = reader_of(spread)
    seen = reader.observe(no_hurry)
    for name, module in plain.anatomy.modules.items():
        proof = prove(module, read_layer(plain.tensors, module), seen[name])
        assert proof.output.holds
        assert proof.scores.holds
    assert all(parameter.is_meta for parameter in reader.model.parameters()), "what was brought stays"


def test_a_weight_that_waits_and_is_no_number_is_named(tiny_copy: TinyModel, tmp_path: Path) -> None:
    folder = tiny_copy("llama")
    name = "layers.1.mlp.up_proj.weight"
    weights = load_file(folder / "model.safetensors")
    weights[name][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = on_disk(folder, tmp_path, device_map={"": "disk"}).loaded
    assert cause_of_nan(model, no_hurry).startswith(f"{name} holds 1 NaN")


def test_weights_that_can_be_neither_held_nor_read_from_their_files_are_one_line(tiny_model: TinyModel) -> None:
    folder = tiny_model("mixtral")
    with pytest.raises(EngineError, match=r"does not fit into .* try --dtype bfloat16 or a ma") as caught:
        load_model("tiny", folder, ACROSS_DEVICES, "float32", **half_on_disk(folder))
    assert "offload" not in one_line(caught.value)


def test_a_module_with_weights_of_its_own_that_wait_gives_its_maps_in_blocks(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_model("gpt_oss", num_hidden_layers=2)  # whose attention has its sinks
    plain, spread = open_reader(folder, "float32"), reader_of(on_disk(folder, tmp_path, device_map={"": "disk"}))
    for name, value in (("BLOCK_BYTES", 1000), ("FEWEST_QUERIES", 1), ("TRIED_TOKENS", 7)):
        monkeypatch.setattr(attention_capture, name, value)
    plain.read(SENTENCE, no_hurry)
    spread.read(SENTENCE, no_hurry)
    assert spread.reads_with_kernels
    for layer in plain.modules:
        expected, found = plain.layer_maps(layer), spread.layer_maps(layer)
        np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-6)
    assert not spread._unsuitable


@pytest.fixture(params=[False, True], ids=["cpu first", "gpu first"])
def on_two_devices(request: pytest.FixtureRequest, tiny_model: TinyModel) -> tuple[FolderSource, Spread]:
    """Give a model in one place, and the same model over two devices."""
    folder = tiny_model("gpt2", with_head=True, num_hidden_layers=4)
    spread = Spread(locate(str(folder)))
    spread.loaded = load_model("tiny", folder, "cpu", "float32")
    lay_out(spread.loaded, request.param)
    return FolderSource(locate(str(folder))), spread


def test_what_is_worked_out_on_two_devices_is_as_on_one(
    on_two_devices: tuple[FolderSource, Spread], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, spread = on_two_devices
    for view in TABLES:
        with computing(monkeypatch) as gpu:
            found = rows(spread, view)
        assert gpu.operations > 100
        assert_alike(found, rows(plain, view))
