"""Layers too large to be computed at once: the head on screen comes first, and what takes too much is left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.analysis import whole_layers
from engine.analysis.decompositions import Decomposer
from engine.analysis.open_model import OpenModel
from engine.architectures import heads as cutting
from engine.architectures.heads import LayerWeights
from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import MATRICES, Head
from engine.values.options import EngineOptions
from engine.values.progress import finish
from engine.values.spectra import SpectraGroup
from tests.conftest import TinyModel
from tests.exporting import run
from tests.opening import one_line
from tests.sparse_checkpoints import SHAPES, Shape, write_checkpoint
from tests.tui.explorer import explorer, screen_text, settle, shown

FIRST = Head("decoder", 0)


def session(folder: Path, is_browsing: bool = False) -> OpenModel:
    """Open a folder without the cache on disk."""
    options = EngineOptions(device="cpu", use_cache=False, is_browsing=is_browsing)
    return OpenModel.open(str(folder), options, lambda progress: None)


@pytest.fixture
def every_layer_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tiny layers be treated as large ones are, one head at a time."""
    monkeypatch.setattr("engine.values.outline.LARGE_LAYER", 0)
    monkeypatch.setattr("engine.values.outline.BATCH", 1)


def assert_same(found: SpectraGroup, expected: SpectraGroup) -> None:
    """Compare two groups of spectra."""
    assert found.spectra.keys() == expected.spectra.keys()
    for number in expected.spectra:
        for mine, theirs in zip(found.of(number), expected.of(number), strict=True):
            assert (mine.head, mine.matrix, mine.rows, mine.cols) == (
                theirs.head, theirs.matrix, theirs.rows, theirs.cols
            )  # fmt: skip
            np.testing.assert_allclose(mine.singular_values, theirs.singular_values, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "t5", "falcon", "deepseek_v3"])
@pytest.mark.parametrize("whole_layer", [False, True])
def test_a_layer_in_steps_gives_what_it_gives_at_once(
    model_type: str, whole_layer: bool, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_model(model_type)
    plain, stepping = session(folder), session(folder)
    expected = [finish(plain.spectra.layer(layer.name, whole_layer)) for layer in plain.outline.layers]
    monkeypatch.setattr("engine.values.outline.LARGE_LAYER", 0)
    monkeypatch.setattr("engine.values.outline.BATCH", 1)
    for group in expected:
        assert_same(finish(stepping.spectra.layer(group.layer, whole_layer)), group)


@pytest.mark.usefixtures("every_layer_is_large")
def test_one_head_is_computed_without_the_others(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = session(tiny_model("llama"))
    computed = counting(monkeypatch)
    alone = finish(opened.spectra.head(Head("decoder", 0, 3)))
    assert computed == [1]
    assert_same(
        SpectraGroup(FIRST, False, {3: {each.matrix: each for each in alone}}),
        SpectraGroup(FIRST, False, {3: finish(opened.spectra.layer(FIRST, False)).spectra[3]}),
    )


@pytest.mark.usefixtures("every_layer_is_large")
def test_what_was_computed_is_kept_when_the_rest_is_given_up(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = session(tiny_model("llama"))
    computed = counting(monkeypatch)

    work = opened.spectra.layer(FIRST, False)
    while len(computed) < 2:
        next(work)
    work.close()
    finish(opened.spectra.layer(FIRST, False))
    assert computed == [1, 1, 1, 1]


@pytest.mark.usefixtures("every_layer_is_large")
@pytest.mark.parametrize("whole_layer", [False, True])
def test_the_same_layer_may_be_asked_for_while_it_is_being_computed(whole_layer: bool, tiny_model: TinyModel) -> None:
    store = session(tiny_model("llama")).spectra
    begun = store.layer(FIRST, whole_layer)
    for _ in range(3):
        next(begun)
    other = finish(store.layer(FIRST, whole_layer))
    assert_same(finish(begun), other)


@pytest.mark.usefixtures("every_layer_is_large")
@pytest.mark.parametrize("whole_layer", [False, True])
def test_what_was_begun_before_all_was_forgotten_is_not_kept(whole_layer: bool, tiny_model: TinyModel) -> None:
    store = session(tiny_model("llama")).spectra
    begun = store.layer(FIRST, whole_layer)
    for _ in range(3):
        next(begun)
    store.forget()
    stale = finish(begun)
    again = finish(store.layer(FIRST, whole_layer))
    assert again is not stale
    assert_same(again, stale)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note of how many heads singular values have been computed at a time."""
    counts: list[int] = []
    compute: Callable[..., Any] = Decomposer.heads

    def count(decomposer: Decomposer, factors: Any, *arguments: Any) -> Any:
        found = yield from compute(decomposer, factors, *arguments)
        counts.append(len(factors[0]))
        return found

    monkeypatch.setattr(Decomposer, "heads", count)
    return counts


@pytest.mark.usefixtures("every_layer_is_large")
def test_of_a_layers_large_tensors_no_more_is_held_than_is_computed_with(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.checkpoints.tensor_reader.MOST_WHOLE", 0)
    opened, seen = session(tiny_model("llama")), list[tuple[int, int]]()
    compute: Callable[..., Any] = Decomposer.heads

    def noting(decomposer: Decomposer, factors: Any, *arguments: Any) -> Any:
        seen.extend((factor.untyped_storage().nbytes(), factor.nbytes) for factor in factors)
        return compute(decomposer, factors, *arguments)

    monkeypatch.setattr(Decomposer, "heads", noting)
    finish(opened.spectra.layer(FIRST, False))
    assert len(seen) == 4 * 4
    assert all(kept == used for kept, used in seen), "a part keeps the whole tensor that it was cut out of"
    assert opened.spectra._tensors is None, "no tensor stays when the layer is done"


@pytest.mark.parametrize("matrices", [("Q",), ("OV",), ("K", "QK")])
def test_of_heads_only_what_is_asked_for_is_read_and_computed(
    tiny_model: TinyModel, matrices: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, head = tiny_model("llama"), Head("decoder", 0, 3)
    everything, read = finish(session(folder).spectra.layer(FIRST, False)), list[Collection[str]]()
    read_layer: Callable[..., LayerWeights] = cutting.read_layer

    def noting(tensors: Any, module: Any, heads: Any, matrices: Collection[str]) -> LayerWeights:
        read.append(matrices)
        return read_layer(tensors, module, heads, matrices)

    monkeypatch.setattr(cutting, "read_layer", noting)
    store = session(folder).spectra
    found = finish(store.head(head, matrices))
    assert [each.matrix for each in found] == list(matrices)
    assert {*"".join(read[0])} == {*"".join(matrices)}
    group = finish(store.layer(FIRST, False, matrices))
    for each in (*found, *group.of(3)):
        expected = everything.spectra[3][each.matrix]
        np.testing.assert_allclose(each.singular_values, expected.singular_values, rtol=1e-9)
        assert (each.noise, each.chance_scale) == pytest.approx((expected.noise, expected.chance_scale), rel=1e-12)
    assert_same(finish(store.layer(FIRST, False)), everything)


@pytest.mark.parametrize(
    ("shape", "left_out", "says", "takes"),
    [
        ("13b", "", "", ""),
        ("70b", "QO", "8192×8192, which need 1.6 GB", "all six about 9 minutes on one core"),
        ("405b", "QO", "16384×16384, which need 6.4 GB", "all six about 74 minutes on one core"),
    ],
)
def test_matrices_of_whole_layers_that_take_more_than_browsing_may_are_left_to_a_command(
    shape: str, left_out: str, says: str, takes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_layers, "free_memory", lambda: None)
    outline = session(write_checkpoint(tmp_path / shape, SHAPES[shape], filled=())).outline.layers[0]
    asked = whole_layers.room_for(outline, MATRICES, is_browsing=False)
    assert asked.fitting == MATRICES
    assert asked.notice.endswith(takes)
    assert bool(asked.notice) == bool(says)
    room = whole_layers.room_for(outline, MATRICES, is_browsing=True)
    assert [matrix for matrix in MATRICES if matrix not in room.fitting] == list(left_out)
    assert not room.notice
    if not says:
        assert not room.lacking
        return
    assert room.lacking.startswith(f"Q and O of L0 as a whole are up to {says}")
    assert "minutes on one core; they are left out here" in room.lacking
    assert room.lacking.endswith("attn-tui export MODEL spectrum --layer 0 --head all")
    of_encoder = whole_layers.room_for(replace(outline, stack="encoder"), MATRICES, is_browsing=True)
    assert of_encoder.lacking.endswith("spectrum --stack encoder --layer 0 --head all")
    needed = whole_layers.needed_memory(outline, "Q")
    monkeypatch.setattr(whole_layers, "free_memory", lambda: 19 * needed)
    assert whole_layers.room_for(outline, MATRICES, is_browsing=True).lacking
    monkeypatch.setattr(whole_layers, "free_memory", lambda: 21 * needed)
    rich = whole_layers.room_for(outline, MATRICES, is_browsing=True)
    assert says in rich.notice, "where there is plenty they are computed"
    assert not rich.lacking
    monkeypatch.setattr(whole_layers, "free_memory", lambda: needed - 1)
    poor = whole_layers.room_for(outline, MATRICES, is_browsing=False)
    assert poor.fitting == ("K", "V", "QK", "OV")
    assert poor.lacking.startswith(f"Q and O of L0 as a whole are up to {says} of memory, and ")
    assert poor.lacking.endswith(" are free: left out")


def test_a_layer_of_which_nothing_fits_is_refused_in_one_line(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.values.outline.LARGE_LAYER", 0)
    opened = session(tiny_model("llama"))
    monkeypatch.setattr(whole_layers, "MOST_BROWSED", 0)
    monkeypatch.setattr(whole_layers, "FREE_SHARE", 0)
    monkeypatch.setattr(whole_layers, "free_memory", lambda: 10)
    with pytest.raises(EngineError) as caught:
        finish(opened.spectra.layer(FIRST, True))
    said = one_line(caught.value)
    assert said.startswith("L0 as a whole has matrices of ")
    assert said.endswith("its heads have their spectra one by one")


@pytest.mark.usefixtures("every_layer_is_large")
async def test_what_the_explorer_leaves_out_is_computed_and_kept_by_the_command_that_it_names(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_layers, "MOST_BROWSED", 0)
    monkeypatch.setattr(whole_layers, "FREE_SHARE", 0)
    folder, options = tiny_model("llama"), EngineOptions(is_browsing=True)
    command = "attn-tui export MODEL spectrum --layer 0 --head all"
    async with explorer(folder, size=(160, 50), head="L0", engine=Engine(options)) as (app, _):
        assert command in app.views.spectra.graph._message
        weights = app.conductor.weights
        assert weights is not None
        assert weights.knowledge.spectra(Head("decoder", 0, 1)), "its heads have theirs"
    done = run(folder, *command.split()[3:])
    assert done.exit_code == 0
    assert done.stderr.startswith("attn-tui: L0 as a whole has matrices of ")
    assert done.stderr.count("\n") == 1
    async with explorer(folder, size=(160, 50), head="L0", engine=Engine(options)) as (app, _):
        assert "σ₁" in screen_text(app)


@pytest.mark.usefixtures("every_layer_is_large")
async def test_beside_a_head_of_a_large_layer_the_layer_as_a_whole_is_left_to_the_sweep(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, spectra = list[str](), Engine.spectra

    def noting(engine: Engine, layer: Head, whole_layer: bool, view: str = "", **more: Any) -> Any:
        asked.append(view)
        return spectra(engine, layer, whole_layer, view, **more)

    monkeypatch.setattr(Engine, "spectra", noting)
    async with explorer(tiny_model("llama"), size=(160, 50), head="L0H0") as (app, pilot):
        assert set(asked) == {"spectra False"}
        await pilot.press("h")
        await settle(pilot)
        assert "spectra L0 " in shown(app.views.spectra.title_line)
        assert [curve.matrix for curve in app.views.spectra.graph._curves], "the sweep has them"


@pytest.mark.usefixtures("every_layer_is_large")
async def test_the_explorer_shows_a_large_layer_as_any_other(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), size=(160, 50)) as (app, pilot):
        await pilot.press("right_square_bracket")
        await settle(pilot)
        assert app.session.shown.selected == Head("decoder", 0, 1)
        assert "…" not in app.views.ranks.chance_line.shown.plain
        assert all("" not in row for row in app.views.ranks.table.rows)
        assert "σ₁" in screen_text(app)


def test_zero_weights_have_spectra_of_zeros(tmp_path: Path) -> None:
    shape = Shape(2, 256, 4, 2, 512, 1000, 2)
    opened = session(write_checkpoint(tmp_path / "holes", shape, filled=(0,)))
    expected = {number: finish(opened.spectra.layer(FIRST, whole)) for number, whole in ((0, False), (-1, True))}
    for number, group in expected.items():
        zeros = finish(opened.spectra.layer(Head("decoder", 1), group.whole_layer))
        for mine, filled in zip(zeros.of(number), group.of(number), strict=True):
            assert mine.singular_values.shape == filled.singular_values.shape
            assert not mine.singular_values.any()
