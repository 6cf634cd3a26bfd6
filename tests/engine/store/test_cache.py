"""Cached spectra make the next start fast, and are never used for other weights or when damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from engine.store.cache import SpectraCache, trim
from engine.store.files import cache_directory
from engine.values.heads import MATRICES, Head
from engine.values.progress import finish
from engine.values.spectra import SpectraGroup
from tests.conftest import TinyModel
from tests.engine.mathematics.dense_spectra import assert_same_spectra
from tests.exporting import run
from tests.opening import PATIENCE, edited_weights, open_on_thread, run_apart, start_engine, with_config

FIRST = Head("decoder", 0)


def spectra(folder: Path, use_cache: bool = True, layer: Head = FIRST) -> SpectraGroup:
    """Open a model anew and compute the spectra of a layer's heads, by default of its first."""
    made = start_engine(folder, use_cache=use_cache)
    found = made.spectra(layer, whole_layer=False).result(PATIENCE)
    made.stop()
    return found


def files(root: Path) -> set[Path]:
    return {each for each in root.rglob("*") if each.is_file()}


def size(root: Path) -> int:
    return sum(each.stat().st_size for each in files(root))


def multiply(folder: Path, factor: float) -> Path:
    with edited_weights(folder) as weights:
        for weight in weights.values():
            weight *= factor
    return folder


def differ(one: SpectraGroup, other: SpectraGroup) -> bool:
    """Return whether the first head's queries have different singular values."""
    return not np.array_equal(one.listed([0])[0].singular_values, other.listed([0])[0].singular_values)


SECOND_START = """
import sys
from engine.checkpoints.source import FolderSource
from engine.checkpoints.locate import locate
from engine.service.engine import Engine
from engine.values.heads import MATRICES, Head
from engine.values.progress import finish
from engine.values.options import EngineOptions
engine = Engine(EngineOptions(device="cpu"))
outline = engine.open(sys.argv[1], lambda progress: None).result(60)
group = engine.spectra(Head("decoder", 0), whole_layer=False).result(60)
slow = [name for name in ("torch", "transformers") if name in sys.modules]
print(repr([each.singular_values.tolist() for each in group.listed([3])]), slow, sep="\\n")
"""


def start(folder: Path) -> tuple[list[list[float]], str]:
    """Compute a head in a new process; return its numbers, and the slow libraries that it imported."""
    numbers, slow = run_apart(SECOND_START, folder).splitlines()
    return json.loads(numbers), slow


def test_the_second_start_shows_the_same_numbers_without_torch(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    first, slow_at_first = start(folder)
    assert "torch" in slow_at_first
    assert start(folder) == (first, "[]")


def test_without_the_cache_nothing_is_written(tiny_model: TinyModel) -> None:
    spectra(tiny_model("llama"), use_cache=False)
    assert not files(cache_directory())


def test_another_head_count_in_the_configuration_is_computed_anew(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2")
    four, two = spectra(folder), spectra(with_config(folder, n_head=2))
    assert len(two.spectra) == 2
    assert differ(two, four)
    assert_same_spectra(two, spectra(folder, use_cache=False))


def test_two_models_do_not_share_files_nor_use_each_others(tiny_model: TinyModel, tiny_copy: TinyModel) -> None:
    folder, copied = tiny_model("llama"), multiply(tiny_copy("llama"), 3)
    own, others = spectra(folder), spectra(copied)
    assert differ(own, others)
    one, other = cache_directory().rglob("decoder-0-heads")
    whole = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(whole)
    assert_same_spectra(spectra(folder), own)
    assert_same_spectra(spectra(copied), others)


@pytest.mark.parametrize("is_of_another_layer", [False, True])
def test_a_file_that_does_not_hold_the_spectra_is_not_used_and_written_anew(
    is_of_another_layer: bool, tiny_model: TinyModel
) -> None:
    folder = tiny_model("llama")
    spectra(folder, layer=Head("decoder", 1))
    computed = spectra(folder)
    (file,), (other,) = (cache_directory().rglob(f"decoder-{layer}-heads") for layer in (0, 1))
    wrong = other.read_bytes() if is_of_another_layer else b"no archive"
    file.write_bytes(wrong)
    assert_same_spectra(spectra(folder), computed)
    assert file.read_bytes() != wrong


def fill(root: Path, ages: dict[str, float]) -> int:
    """Write a file for each of several models, last read some seconds ago; return the size of the largest."""
    for identity, age in ages.items():
        known = files(root)
        SpectraCache(root, identity).save("decoder-0-heads", {"Q": np.zeros(1000)})
        (file,) = files(root) - known
        os.utime(file, (1e9 - age,) * 2)
    return max(each.stat().st_size for each in files(root))


def left(root: Path, identities: Iterable[str]) -> list[str]:
    return [each for each in identities if SpectraCache(root, each).load("decoder-0-heads") is not None]


def test_the_models_used_longest_ago_leave_the_cache_first(tmp_path: Path) -> None:
    ages = {"used again": 30.0, "old": 20.0, "new": 0.0}
    size = fill(tmp_path, ages)
    SpectraCache(tmp_path, "used again").load("decoder-0-heads")
    trim(tmp_path, limit=2 * size)
    assert left(tmp_path, ages) == ["used again", "new"]


def test_a_model_larger_than_the_cache_is_kept_in_part(tmp_path: Path) -> None:
    limit = 64 * 1024
    cache = SpectraCache(tmp_path, "huge", limit)
    for layer in range(100):
        cache.save(f"decoder-{layer}-heads", {"Q": np.full(500, float(layer))})
        assert size(tmp_path) <= limit
    last = cache.load("decoder-99-heads")
    assert last is not None
    np.testing.assert_array_equal(last["Q"], np.full(500, 99.0))


@pytest.mark.parametrize("change", ["written over", "replaced", "behind a link"])
def test_other_weights_of_the_same_size_and_age_are_computed_anew(tiny_copy: TinyModel, change: str) -> None:
    """Archives may give all their files one date."""
    folder = tiny_copy("llama")
    weights, other = folder / "model.safetensors", folder / "other"
    if change == "behind a link":
        weights = weights.rename(folder / "one")
        (folder / "model.safetensors").symlink_to(weights)
    save_file({name: tensor * 2 for name, tensor in load_file(weights).items()}, other, {"format": "pt"})
    assert other.stat().st_size == weights.stat().st_size
    for each in (weights, other):
        os.utime(each, (1, 1))
    before = spectra(folder)
    assert_same_spectra(spectra(folder), before)
    if change == "behind a link":
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").symlink_to(other)
    elif change == "replaced":
        other.rename(weights)
    else:
        weights.write_bytes(other.read_bytes())
        os.utime(weights, (1, 1))
    after = spectra(folder)
    assert_same_spectra(after, spectra(folder, use_cache=False))
    assert differ(after, before)


UNWRITABLE = "cannot cache spectra: Not a directory; attn-tui info names the folder"


@pytest.fixture
def unwritable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a file where the cache's folder would be, which stops even the superuser."""
    (tmp_path / "attn-tui").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("unwritable_cache")
def test_a_cache_that_cannot_be_written_is_reported_once(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2")
    for views in (("ranks",), ("spectrum", "--vs", str(folder))):
        done = run(folder, *views, "--layer", "0")
        assert done.exit_code == 0
        assert done.stderr.count(UNWRITABLE) == 1
        assert done.stdout == run(folder, *views, "--layer", "0", "--no-cache").stdout
    assert UNWRITABLE not in run(folder, "ranks", "--no-cache").stderr


def test_matrices_that_are_computed_one_after_another_are_all_kept(tiny_model: TinyModel) -> None:
    def of_layer(*matrices: str, use_cache: bool = True) -> SpectraGroup:
        opened = open_on_thread(tiny_model("llama"), use_cache=use_cache)
        return finish(opened.spectra.layer(FIRST, False, matrices or MATRICES))

    for matrices in (("Q",), ("OV",), ("QK", "V"), ("K",)):
        assert of_layer(*matrices).spectra[0].keys() >= {*matrices}
    assert_same_spectra(of_layer(), of_layer(use_cache=False), rtol=1e-9)
