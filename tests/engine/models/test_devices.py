"""Models on a pretended GPU, or spread over devices, give the CPU's numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine.analysis.open_model import OpenModel
from engine.checkpoints.locate import locate
from engine.checkpoints.source import FolderSource
from engine.mathematics import spectra
from engine.models import devices
from engine.models.interventions import HeldNorm
from engine.models.model_loader import input_device, load_model, load_reader
from engine.models.proof import rows_by_head
from engine.models.reader import Reader
from engine.models.tokenizer import Tokenizer
from engine.values.heads import MATRICES
from engine.values.memory import ACROSS_DEVICES
from engine.values.options import EngineOptions
from engine.values.table import Cell
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.engine.mathematics.dense_spectra import (
    Factors,
    change_all,
    draw_layer,
    gaussian,
    head_singular_values,
    layer_singular_values,
)
from tests.engine.models.test_attention import SENTENCE
from tests.opening import prove_layers, refused, worked_out
from tests.pretended_gpu import DEVICE, PretendedGpu

D = 24

THIN = draw_layer(4, 2, 6, 5, D, D)
"""A layer with narrow heads that share keys."""

LAYERS: dict[str, Factors] = {
    "thin": THIN,
    "two equal rows": change_all(THIN, lambda each: torch.cat([each[:, :-1], each[:, -2:-1]], 1)),
    "wide": draw_layer(2, 2, D, D, 10, 10),
    "bfloat16": change_all(THIN, Tensor.bfloat16),
}


def all_spectra(factors: Factors) -> list[Tensor]:
    whole = (layer_singular_values(matrix, *factors) for matrix in MATRICES)
    return [*head_singular_values(*factors).values(), *whole]


def smallest(factors: Factors) -> list[Tensor]:
    """Find the two smallest singular values of all queries, and the spaces of their vectors."""
    found = spectra.smallest_singular_values(factors[0].flatten(0, 1), 2)
    assert found is not None
    return [found[0], *(each @ each.mT for each in found[1:])]


@pytest.mark.parametrize(("layer", "compute"), [*((name, all_spectra) for name in LAYERS), ("thin", smallest)])
def test_singular_values_are_computed_on_the_device_of_the_factors(
    layer: str, compute: Callable[[Factors], list[Tensor]]
) -> None:
    factors = LAYERS[layer]
    with PretendedGpu() as gpu:
        found = [each.cpu() for each in compute(change_all(factors, methodcaller("to", DEVICE)))]
    assert gpu.operations > 5
    for mine, theirs in zip(found, compute(factors), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("has_float64", [True, False])
def test_proofs_and_held_norms_compute_in_the_widest_type_of_the_device(
    has_float64: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_float64:
        monkeypatch.setattr(devices, "WITHOUT_FLOAT64", {DEVICE})
    assert devices.spectra_device(DEVICE) == (DEVICE if has_float64 else "cpu")
    weight, bias, read = (gaussian(*shape).float() for shape in ((3, 4, D), (3, 4), (2, 5, D)))
    norm: Any = SimpleNamespace(forward=partial(nn.functional.layer_norm, normalized_shape=(D,)))

    def compute(read: Tensor) -> tuple[Tensor, Tensor]:
        held = HeldNorm.of(norm, read[0, :1], norm.forward(read[0, :1]))
        assert held is not None
        return rows_by_head(read, weight, bias), held(read[0])

    expected = compute(read)
    with PretendedGpu(has_float64):
        found = [each.cpu() for each in compute(read.to(DEVICE))]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == (torch.float64 if has_float64 else torch.float32)
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("places", [[4], [0, -3]])
def test_a_row_that_an_embedding_lacks_is_refused_before_the_gpu_looks_it_up(places: list[int]) -> None:
    with PretendedGpu(), devices.CheckedLookups():
        table = torch.zeros(4, 3).to(DEVICE)
        assert nn.functional.embedding(torch.tensor([3, 0]).to(DEVICE), table).shape == (2, 3)
        with pytest.raises(IndexError, match=rf"row {places[-1]} of an embedding of 4 rows"):
            nn.functional.embedding(torch.tensor(places).to(DEVICE), table)


accelerate: Any = pytest.importorskip("accelerate")

TABLES = ("predictions", "lens", "contributions", "explain", "ablation", "rollout")
"""Views that run the model."""


class Spread(FolderSource):
    """A folder whose model is loaded over several devices."""

    loaded: Any


@load_reader.register
def reader_of(source: Spread, device: str = "", dtype: str = "") -> Reader:
    words = Tokenizer.of_folder(source.location.directory)
    return Reader(source.anatomy, source.loaded, words, input_device(source.loaded))


def on_disk(folder: Path, offload: Path, **options: Any) -> Spread:
    """Load a folder's model with options that leave some of its weights on disk."""
    source = Spread(locate(str(folder)))
    source.loaded = load_model("tiny", folder, ACROSS_DEVICES, "float32", offload_folder=str(offload), **options)
    waiting = [name for name, parameter in source.loaded.named_parameters() if parameter.is_meta]
    assert waiting, "nothing waits on disk, so nothing is tested"
    return source


def half_on_disk(folder: Path) -> dict[str, Any]:
    return {"max_memory": {"cpu": (folder / "model.safetensors").stat().st_size // 2}}


def rows(source: FolderSource, view: str) -> list[tuple[Cell, ...]]:
    """Compute a table for the sentence; for the last layer, if it takes long."""
    session = OpenModel(source, EngineOptions(device="cpu", dtype="float32", use_cache=False))
    layer = session.outline.attending_layers[-1].name if view in ("explain", "ablation") else None
    return [*map(tuple, worked_out(session, view, Query(text=SENTENCE, layer=layer)).rows)]


def assert_alike(found: list[tuple[Cell, ...]], expected: list[tuple[Cell, ...]]) -> None:
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        for cell, other in zip(mine, theirs, strict=True):
            is_number = isinstance(other, float)
            assert cell == (pytest.approx(other, rel=1e-3, abs=1e-4, nan_ok=True) if is_number else other)


@pytest.mark.parametrize("model_type", ["gpt2", "t5"])
def test_tables_and_proofs_with_all_weights_on_disk_are_those_of_the_plain_model(
    model_type: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = tiny_model(model_type, with_head=True)
    plain = FolderSource(locate(str(folder)))
    spread = on_disk(folder, tmp_path, device_map={"": "disk"})
    for view in TABLES:
        assert_alike(rows(spread, view), rows(plain, view))
    reader = reader_of(spread)
    for proof in prove_layers(folder, reader).values():
        assert proof.output.holds
        assert proof.scores.holds
    assert all(parameter.is_meta for parameter in reader.model.parameters()), "weights stay loaded"


def test_weights_that_fit_neither_memory_nor_stay_in_their_files_are_refused_in_one_line(tiny_model: TinyModel) -> None:
    folder = tiny_model("mixtral")
    said = refused(lambda: load_model("tiny", folder, ACROSS_DEVICES, "float32", **half_on_disk(folder)))
    assert re.search(r"does not fit into .* try --dtype bfloat16 or a ma", said)
    assert "offload" not in said


def lay_out(model: nn.Module, gpu_first: bool) -> None:
    """Put a GPT-2's first block and all outside the blocks on one device, its second on the other, with hooks."""
    first, others = (DEVICE, "cpu") if gpu_first else ("cpu", DEVICE)
    outside = ("wte", "wpe", "drop", "ln_f")
    assert {name for name, _ in model.named_children()} == {"h", *outside}
    places = {"h.1": others} | dict.fromkeys(("h.0", *outside), first)
    with PretendedGpu():
        for name, device in places.items():
            model.get_submodule(name).requires_grad_(False).to(device)
        accelerate.big_modeling.attach_align_device_hook_on_blocks(model, places, offload=dict.fromkeys(places, False))
        same_device = accelerate.hooks.AlignDevicesHook(io_same_device=True)
        accelerate.hooks.add_hook_to_module(model, same_device, append=True)


@contextmanager
def computing() -> Iterator[PretendedGpu]:
    """Let a model compute on both devices; torch functions below the level of the pretended GPU are replaced."""
    make = torch.tensor

    def tensor(data: Any, device: Any = None, **options: Any) -> torch.Tensor:
        made = make(data, **options)
        return made if device is None else made.to(device)

    with pytest.MonkeyPatch.context() as changed, PretendedGpu() as gpu:
        changed.setattr(torch, "tensor", tensor)
        changed.setattr(torch, "inference_mode", lambda mode=True: torch.no_grad() if mode else torch.enable_grad())
        yield gpu


@pytest.mark.parametrize("gpu_first", [False, True])
def test_tables_of_a_model_on_two_devices_are_those_of_one(gpu_first: bool, tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    plain, spread = FolderSource(locate(str(folder))), Spread(locate(str(folder)))
    spread.loaded = load_model("tiny", folder, "cpu", "float32")
    lay_out(spread.loaded, gpu_first)
    for view in TABLES:
        with computing() as gpu:
            found = rows(spread, view)
        assert gpu.operations > 50
        assert_alike(found, rows(plain, view))
