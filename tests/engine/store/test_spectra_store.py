"""A model's spectra in units of work: their lanes, what is kept in memory and on disk, and several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.analysis.spectra import SpectraStore
from engine.values.heads import Head
from engine.values.progress import Lane, finish
from tests.conftest import TinyModel
from tests.engine.mathematics.dense_spectra import assert_same_spectra
from tests.opening import open_on_thread

FIRST = Head("decoder", 0)


def store(folder: Path, use_cache: bool = False) -> SpectraStore:
    return open_on_thread(folder, use_cache=use_cache).spectra


@pytest.fixture
def folder(tiny_model: TinyModel) -> Path:
    return tiny_model("llama")


@pytest.mark.parametrize("whole_layer", [False, True])
def test_heads_are_computed_on_one_lane_and_whole_layers_on_another(folder: Path, whole_layer: bool) -> None:
    opened = store(folder)
    lanes = {lane for lane in opened.layer(FIRST, whole_layer) if lane is not None}
    assert lanes == {Lane.LAYERS if whole_layer else Lane.WEIGHTS}
    assert list(opened.layer(FIRST, whole_layer)) == [], "known spectra take no work"


def test_spectra_on_disk_are_not_computed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = store(folder, use_cache=True)
    expected = [finish(first.layer(FIRST, whole_layer)) for whole_layer in (False, True)]
    monkeypatch.setattr("engine.architectures.heads.read_layer", pytest.fail)
    again = store(folder, use_cache=True)
    assert again.has_stored_spectra
    for whole_layer, group in zip((False, True), expected, strict=True):
        assert_same_spectra(finish(again.layer(FIRST, whole_layer)), group, rtol=1e-9)
    head = finish(again.head(Head("decoder", 0, 2)))
    assert [each.noise for each in head] == [each.noise for each in expected[0].listed([2])]


def test_matrices_that_are_computed_one_after_another_are_all_kept(folder: Path) -> None:
    expected = finish(store(folder).layer(FIRST, False))
    for matrices in (("Q",), ("OV",), ("QK", "V"), ("K",)):
        group = finish(store(folder, use_cache=True).layer(FIRST, False, matrices))
        assert group.spectra[0].keys() >= {*matrices}
    assert_same_spectra(finish(store(folder, use_cache=True).layer(FIRST, False)), expected, rtol=1e-9)


@pytest.mark.parametrize("others", [("V",), ("Q", "QK"), ("Q", "K", "V", "O", "QK", "OV")])
@pytest.mark.parametrize("whole_layer", [False, True])
def test_spectra_that_other_work_computes_meanwhile_are_kept(
    folder: Path, whole_layer: bool, others: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.values.outline.LARGE_LAYER", 0)
    monkeypatch.setattr("engine.values.outline.BATCH", 1)
    expected = finish(store(folder).layer(FIRST, whole_layer))
    opened = store(folder)
    begun = opened.layer(FIRST, whole_layer)
    for _ in range(3):
        next(begun)
    finish(opened.layer(FIRST, whole_layer, others))
    assert_same_spectra(finish(begun), expected, rtol=1e-9)
    assert_same_spectra(finish(opened.layer(FIRST, whole_layer)), expected, rtol=1e-9)


def test_several_threads_get_the_same_spectra_as_one(folder: Path) -> None:
    layers = [Head("decoder", number) for number in range(2)]
    asked = [(layer, whole_layer) for layer in layers for whole_layer in (False, True)]
    alone = store(folder)
    expected = {each: finish(alone.layer(*each)) for each in asked}
    opened = store(folder)
    with ThreadPoolExecutor(8) as threads:
        heads = [threads.submit(lambda head: finish(opened.head(head)), Head("decoder", 0, n)) for n in range(4)]
        groups = [threads.submit(lambda each: finish(opened.layer(*each)), each) for each in asked * 2]
        for each, found in zip(asked * 2, groups, strict=True):
            assert_same_spectra(found.result(), expected[each], rtol=1e-9)
        for number, of_head in enumerate(heads):
            assert [spectrum.head.head for spectrum in of_head.result()] == [number] * 6


def test_at_a_distance_only_qk_changes(folder: Path) -> None:
    opened = store(folder)
    for whole_layer, number in ((False, 1), (True, -1)):
        plain = finish(opened.layer(FIRST, whole_layer))
        assert_same_spectra(finish(opened.layer(FIRST, whole_layer, distance=0)), plain, rtol=1e-9)
        rotated = finish(opened.layer(FIRST, whole_layer, distance=3))
        changed = {
            matrix for matrix, each in rotated.spectra[number].items()
            if (each.singular_values != plain.spectra[number][matrix].singular_values).any()
        }  # fmt: skip
        assert changed == {"QK"}
    of_head = {each.matrix: each for each in finish(opened.head(Head("decoder", 0, 1), 3))}["QK"]
    of_layer = finish(opened.layer(FIRST, False, distance=3)).spectra[1]["QK"]
    assert of_head.singular_values == pytest.approx(of_layer.singular_values, rel=1e-9)
