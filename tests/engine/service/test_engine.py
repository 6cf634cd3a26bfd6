"""The engine as the screen sees it: what its futures bring is what the mathematics and the model say directly."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from engine import open_model
from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import MATRICES, Head
from engine.values.options import EngineOptions
from engine.values.progress import Progress
from engine.values.spectra import SpectraGroup
from engine.values.views import Query
from tests.conftest import TinyModel

PATIENCE = 60.0
SENTENCE = "The cat sat on the mat, and Mary gave a drink to John."
FIRST, SECOND = Head("decoder", 0), Head("decoder", 1)


def quietly(progress: Progress) -> None:
    """Report to nobody."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Make an engine with no model open, that keeps nothing on disk."""
    made = Engine(EngineOptions(device="cpu", use_cache=False))
    yield made
    made.stop()


def answer(future: Future[Any]) -> Any:
    """Wait for an answer."""
    return future.result(PATIENCE)


def opened(engine: Engine, folder: Path) -> Engine:
    """Open a model."""
    answer(engine.open(str(folder), quietly))
    return engine


def llama_heads(folder: Path, layer: int) -> dict[int, dict[str, torch.Tensor]]:
    """Cut a Llama's four heads out of its file by hand: two query heads of 8 rows to each key/value head of 8 rows."""
    weights = {name: weight.double() for name, weight in load_file(folder / "model.safetensors").items()}
    q, k, v, o = (weights[f"layers.{layer}.self_attn.{name}_proj.weight"] for name in "qkvo")
    heads = {}
    for head in range(4):
        own, shared = slice(8 * head, 8 * head + 8), slice(8 * (head // 2), 8 * (head // 2) + 8)
        heads[head] = {"Q": q[own], "K": k[shared], "V": v[shared], "O": o[:, own]}
        heads[head] |= {"QK": q[own].T @ k[shared], "OV": v[shared].T @ o[:, own].T}
    return heads


def assert_spectra(group: SpectraGroup, heads: dict[int, dict[str, torch.Tensor]]) -> None:
    """Compare a layer's spectra with dense singular values."""
    assert group.spectra.keys() == heads.keys()
    for number, matrices in heads.items():
        spectra = group.of(number)
        assert len({id(each.head) for each in spectra}) == 1  # the collector goes through every name there is
        assert tuple(each.matrix for each in spectra) == MATRICES
        for each in spectra:
            assert (each.head.head, (each.rows, each.cols)) == (number, tuple(matrices[each.matrix].shape))
            dense = torch.linalg.svdvals(matrices[each.matrix]).numpy()[: len(each.singular_values)]
            np.testing.assert_allclose(each.singular_values, dense, rtol=1e-6)


def test_opening_tells_the_models_outline(engine: Engine, tiny_model: TinyModel) -> None:
    folder = tiny_model("bart")
    outline = answer(engine.open(str(folder), quietly))
    assert outline.stacks == ("encoder", "decoder", "cross")
    assert outline.number_of_heads == 4 * (2 + 3 + 3)
    assert (outline.model_type, outline.dtype, outline.context) == ("bart", "float32", 64)
    stored = load_file(folder / "model.safetensors")
    assert outline.parameters == sum(each.numel() for each in stored.values())
    assert outline.stored_bytes == 4 * outline.parameters


def test_spectra_are_those_of_the_heads_in_the_file(engine: Engine, tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    group = answer(opened(engine, folder).spectra(SECOND, whole_layer=False))
    assert (group.layer, group.whole_layer) == (SECOND, False)
    assert_spectra(group, llama_heads(folder, 1))


def test_a_whole_layers_spectra_are_those_of_its_stacked_and_summed_heads(
    engine: Engine, tiny_model: TinyModel
) -> None:
    folder = tiny_model("llama", hidden_size=64, head_dim=8)
    group = answer(opened(engine, folder).spectra(FIRST, whole_layer=True))
    heads = llama_heads(folder, 0)
    whole = {
        "Q": torch.cat([heads[head]["Q"] for head in range(4)]),
        "K": torch.cat([heads[head]["K"] for head in (0, 2)]),
        "V": torch.cat([heads[head]["V"] for head in (0, 2)]),
        "O": torch.cat([heads[head]["O"] for head in range(4)], 1),
        "QK": sum((heads[head]["QK"] for head in range(4)), torch.zeros(())),
        "OV": sum((heads[head]["OV"] for head in range(4)), torch.zeros(())),
    }
    assert_spectra(group, {-1: whole})


def test_chance_is_the_same_for_layers_of_one_shape_and_at_every_run(tiny_model: TinyModel) -> None:
    found = []
    for _ in range(2):
        engine = opened(Engine(EngineOptions(device="cpu", use_cache=False)), tiny_model("llama"))
        groups = [answer(engine.spectra(layer, whole_layer=False)) for layer in (FIRST, SECOND)]
        found += [{each.matrix: each.chance for each in group.of(0)} for group in groups]
        engine.stop()
    for each in found[1:]:
        for matrix in MATRICES:
            np.testing.assert_array_equal(each[matrix], found[0][matrix])
    for factor in "QKVO":
        np.testing.assert_allclose(np.sqrt((found[0][factor] ** 2).sum(-1)), 1.0, rtol=1e-12)


@pytest.mark.parametrize("whole_layer", [False, True])
def test_chance_is_shaped_like_what_it_stands_beside(whole_layer: bool, engine: Engine, tiny_model: TinyModel) -> None:
    opened(engine, tiny_model("llama", hidden_size=64, head_dim=8))
    group = answer(engine.spectra(FIRST, whole_layer))
    for each in group.of(-1 if whole_layer else 0):
        assert each.chance.shape[1:] == each.singular_values.shape


def test_attention_is_that_of_the_model(engine: Engine, tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    opened(engine, folder)
    sentence = answer(engine.read(SENTENCE))
    model: Any = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        attentions = model(torch.tensor([sentence.ids]), output_attentions=True).attentions
    for layer in (0, 1):
        maps = answer(engine.attention(SENTENCE, "decoder", layer))
        np.testing.assert_allclose(maps.weights, attentions[layer][0].numpy(), rtol=0, atol=1e-5)
    mean = answer(engine.attention(SENTENCE, "decoder", None))
    np.testing.assert_allclose(mean.weights, torch.stack(attentions).mean(0)[0].numpy(), rtol=0, atol=1e-5)


def test_a_layer_or_stack_that_is_not_there_is_an_answer(engine: Engine, tiny_model: TinyModel) -> None:
    opened(engine, tiny_model("llama"))
    for name in (Head("decoder", 2), Head("decoder", 0, 4), Head("encoder", 0)):
        with pytest.raises(EngineError, match="has no"):
            answer(engine.spectra(name, whole_layer=False))
    with pytest.raises(EngineError, match="has no"):
        answer(engine.attention(SENTENCE, "decoder", 2))
    assert_spectra(answer(engine.spectra(FIRST, whole_layer=False)), llama_heads(tiny_model("llama"), 0))


def test_the_arrays_are_the_rows_of_the_file(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2")
    file = folder / "model.safetensors"
    stored = {name: weight.bfloat16() for name, weight in load_file(file).items()}
    stored["h.1.attn.c_attn.weight"][0, :2] = torch.tensor([1e-30, 1e30])  # what float16 cannot hold
    save_file(stored, file)
    model = open_model(folder, device="cpu", use_cache=False)
    arrays = {name: model[str(name)].arrays() for name in model.outline.layer(SECOND).head_names()}
    weight, bias = stored["h.1.attn.c_attn.weight"].float(), stored["h.1.attn.c_attn.bias"].float()
    for head, mine in arrays.items():
        for place, matrix in enumerate("QKV"):
            rows = slice(32 * place + 8 * head.head, 32 * place + 8 * head.head + 8)
            np.testing.assert_array_equal(mine[f"W_{matrix}"], weight[:, rows].T.numpy())
            np.testing.assert_array_equal(mine[f"b_{matrix}"], bias[rows].numpy())
        own = slice(8 * head.head, 8 * head.head + 8)
        np.testing.assert_array_equal(mine["W_O"], stored["h.1.attn.c_proj.weight"].float()[own].T.numpy())
        np.testing.assert_array_equal(mine["b_O"], stored["h.1.attn.c_proj.bias"].float().numpy())


Delivery = tuple[Head, bool, SpectraGroup | EngineError, Progress]


def test_the_sweep_does_the_heads_of_every_layer_and_then_the_layers(engine: Engine, tiny_model: TinyModel) -> None:
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


def test_the_sweep_goes_on_after_a_layer_that_cannot_be_computed(engine: Engine, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    file = folder / "model.safetensors"
    weights = load_file(file)
    weights["layers.0.self_attn.v_proj.weight"][0, 0] = float("nan")
    save_file(weights, file)
    delivered: list[Delivery] = []
    answer(opened(engine, folder).sweep(lambda *step: delivered.append(step)))
    kinds = [isinstance(group, SpectraGroup) for _, _, group, _ in delivered]
    assert kinds == [False, True, False, True]
    assert "layers.0.self_attn.v_proj.weight" in str(delivered[0][2])
    assert [each.done for *_, each in delivered] == [4, 8, 1, 2]


def test_what_is_selected_comes_before_the_rest_of_the_sweep(engine: Engine, tiny_model: TinyModel) -> None:
    opened(engine, tiny_model("llama", num_hidden_layers=6))
    order: list[str] = []

    def deliver(name: Head, whole: bool, group: SpectraGroup | EngineError, progress: Progress) -> None:
        order.append(f"sweep {name}{' whole' if whole else ''}")
        if len(order) == 1:
            selected = engine.spectra(Head("decoder", 5), whole_layer=False, view="spectra")
            selected.add_done_callback(lambda future: order.append("selected"))

    answer(engine.sweep(deliver))
    assert order[:3] == ["sweep L0", "selected", "sweep L1"]


def test_a_newer_sweep_replaces_the_older(engine: Engine, tiny_model: TinyModel) -> None:
    opened(engine, tiny_model("llama", num_hidden_layers=6))
    begun, go_on = threading.Event(), threading.Event()

    def deliver(*step: Any) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    older = engine.sweep(deliver)
    assert begun.wait(PATIENCE)
    newer = engine.sweep(lambda *step: None)
    go_on.set()
    with pytest.raises(EngineError, match="newer"):
        answer(older)
    answer(newer)


def test_before_a_model_is_open_every_request_says_so(engine: Engine) -> None:
    table = engine.table("weights", Query())
    for future in (engine.spectra(FIRST, False), table, engine.read(SENTENCE)):
        with pytest.raises(EngineError, match="no model is open"):
            answer(future)


def test_after_a_model_that_does_not_open_another_does(engine: Engine, tiny_model: TinyModel, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="nowhere"):
        answer(engine.open(str(tmp_path / "nowhere"), quietly))
    assert answer(engine.open(str(tiny_model("gpt2")), quietly)).model_type == "gpt2"
    assert answer(engine.open(str(tiny_model("llama")), quietly)).model_type == "llama"
    assert_spectra(answer(engine.spectra(FIRST, False)), llama_heads(tiny_model("llama"), 0))


def test_a_model_deleted_while_it_is_open_is_an_answer(engine: Engine, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    opened(engine, folder)
    shutil.rmtree(folder)
    for future in (engine.spectra(FIRST, False), engine.read(SENTENCE)):
        with pytest.raises(EngineError, match="llama-copy"):
            answer(future)
