"""The engine's requests: outlines, spectra, sweeps and errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.progress import Progress, tell_nobody
from engine.values.spectra import SpectraGroup
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.opening import PATIENCE

SENTENCE = "The cat sat on the mat, and Mary gave a drink to John."
FIRST, SECOND = Head("decoder", 0), Head("decoder", 1)


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Make an engine without an open model or cache."""
    made = Engine(EngineOptions(device="cpu", use_cache=False))
    yield made
    made.stop()


def answer(future: Future[Any]) -> Any:
    return future.result(PATIENCE)


def opened(engine: Engine, folder: Path) -> Engine:
    answer(engine.open(str(folder), tell_nobody))
    return engine


def test_opening_returns_the_outline(engine: Engine, tiny_model: TinyModel) -> None:
    folder = tiny_model("bart")
    outline = answer(engine.open(str(folder), tell_nobody))
    assert outline.stacks == ("encoder", "decoder", "cross")
    assert sum(layer.heads for layer in outline.layers) == 4 * (2 + 3 + 3)
    assert (outline.model_type, outline.dtype, outline.context) == ("bart", "float32", 64)
    stored = load_file(folder / "model.safetensors")
    assert outline.parameters == sum(each.numel() for each in stored.values())
    assert outline.stored_bytes == 4 * outline.parameters


def test_a_missing_layer_or_stack_is_an_error(engine: Engine, tiny_model: TinyModel) -> None:
    opened(engine, tiny_model("llama"))
    for name in (Head("decoder", 2), Head("decoder", 0, 4), Head("encoder", 0)):
        with pytest.raises(EngineError, match="there is no"):
            answer(engine.spectra(name, whole_layer=False))
    with pytest.raises(EngineError, match="there is no"):
        answer(engine.attention(SENTENCE, "decoder", 2))
    assert answer(engine.spectra(FIRST, whole_layer=False)).spectra.keys() == {0, 1, 2, 3}


Delivery = tuple[Head, bool, SpectraGroup | EngineError, Progress]


def test_the_sweep_computes_heads_and_then_whole_layers(engine: Engine, tiny_model: TinyModel) -> None:
    opened(engine, tiny_model("llama", num_hidden_layers=3))
    delivered: list[Delivery] = []
    answer(engine.sweep(lambda *step: delivered.append(step)))
    assert [(name.layer, whole) for name, whole, _, _ in delivered] == [
        (0, False), (1, False), (2, False), (0, True), (1, True), (2, True),
    ]  # fmt: skip
    progress = [(each.done, each.total, each.finished) for *_, each in delivered]
    assert progress == [(4, 12, False), (8, 12, False), (12, 12, True), (1, 3, False), (2, 3, False), (3, 3, True)]
    for name, whole, group, _ in delivered:
        assert isinstance(group, SpectraGroup)
        assert group is answer(engine.spectra(name, whole))


def test_a_selected_head_comes_before_the_rest_of_the_sweep(engine: Engine, tiny_model: TinyModel) -> None:
    opened(engine, tiny_model("llama", num_hidden_layers=6))
    order: list[str] = []

    def deliver(name: Head, whole: bool, group: SpectraGroup | EngineError, progress: Progress) -> None:
        order.append(f"sweep {name}{' whole' if whole else ''}")
        if len(order) == 1:
            selected = engine.spectra(Head("decoder", 5), whole_layer=False, view="spectra")
            selected.add_done_callback(lambda future: order.append("selected"))

    answer(engine.sweep(deliver))
    assert order[:3] == ["sweep L0", "selected", "sweep L1"]


def test_before_a_model_is_open_every_request_says_so(engine: Engine) -> None:
    table = engine.table("weights", Query())
    for future in (engine.spectra(FIRST, False), table, engine.read(SENTENCE)):
        with pytest.raises(EngineError, match="no model is open"):
            answer(future)


def test_another_model_opens_after_one_that_does_not(engine: Engine, tiny_model: TinyModel, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="nowhere"):
        answer(engine.open(str(tmp_path / "nowhere"), tell_nobody))
    assert answer(engine.open(str(tiny_model("gpt2")), tell_nobody)).model_type == "gpt2"
    assert answer(engine.open(str(tiny_model("llama")), tell_nobody)).model_type == "llama"
    query = load_file(tiny_model("llama") / "model.safetensors")["layers.0.self_attn.q_proj.weight"][:8].double()
    found = answer(engine.spectra(FIRST, False)).spectra[0]["Q"].singular_values
    np.testing.assert_allclose(found, torch.linalg.svdvals(query).numpy(), rtol=1e-6)


def test_deleting_an_open_model_is_an_error(engine: Engine, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    opened(engine, folder)
    shutil.rmtree(folder)
    for future in (engine.spectra(FIRST, False), engine.read(SENTENCE)):
        with pytest.raises(EngineError, match="llama-copy"):
            answer(future)
