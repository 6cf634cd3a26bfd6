"""Files of one size and age are not taken for each other: what the cache kept of one is not shown of another."""

from __future__ import annotations

import os

import pytest
from safetensors.torch import load_file, save_file

from tests.conftest import TinyModel
from tests.engine.store.test_cache import assert_same, differ, spectra


@pytest.mark.parametrize("is_linked", [False, True])
def test_another_file_of_the_same_size_and_age_is_read_anew(tiny_copy: TinyModel, is_linked: bool) -> None:
    """As archives leave them whose files are all of one date."""
    folder = tiny_copy("llama")
    weights, other = folder / "model.safetensors", folder / "other"
    if is_linked:
        weights = weights.rename(folder / "one")
        (folder / "model.safetensors").symlink_to(weights)
    save_file({name: tensor * 2 for name, tensor in load_file(weights).items()}, other, {"format": "pt"})
    assert other.stat().st_size == weights.stat().st_size
    for each in (weights, other):
        os.utime(each, (1, 1))
    before = spectra(folder)
    assert_same(spectra(folder), before)
    if is_linked:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").symlink_to(other)
    else:
        other.rename(weights)
    after = spectra(folder)
    assert_same(after, spectra(folder, use_cache=False))
    assert differ(after, before)
