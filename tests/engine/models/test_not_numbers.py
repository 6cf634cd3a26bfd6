"""Sentences on models whose weights hold NaN: what cannot be said is refused, with the tensor that it is due to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.views import Query
from tests.conftest import TinyModel

TEXT = "the cat sat"
SAID = r"h\.1\.attn\.c_attn\.weight holds 2 NaN or infinite numbers of 3072$"


@pytest.fixture
def engine(tiny_copy: TinyModel) -> Engine:
    """Open a model of which the first head of the middle layer has two queries' numbers that are none."""
    file = tiny_copy("gpt2", with_head=True, n_layer=3) / "model.safetensors"
    tensors = load_file(file)
    name = next(each for each in tensors if each.endswith("h.1.attn.c_attn.weight"))
    tensors[name][:2, 0] = torch.tensor([torch.nan, torch.inf])
    save_file(tensors, file, metadata={"format": "pt"})
    engine = Engine(EngineOptions(use_cache=False, device="cpu"))
    engine.open(str(file.parent), lambda progress: None).result()
    return engine


@pytest.mark.parametrize("view", ["predictions", "lens", "contributions", "ablation"])
def test_nothing_is_predicted_from_what_is_no_number(view: str, engine: Engine) -> None:
    with pytest.raises(EngineError, match=rf"gives here are NaN, nothing is predicted: transformer\.{SAID}"):
        engine.table(view, Query(text=TEXT)).result()


def test_maps_and_scores_say_whose_numbers_are_none(engine: Engine) -> None:
    assert np.isfinite(engine.attention(TEXT, "decoder", 0).result().weights).all()
    with pytest.raises(EngineError, match=f"L1 of 'gpt2' has no map to show: {SAID}"):
        engine.attention(TEXT, "decoder", 1).result()
    with pytest.raises(EngineError, match=r"what it reads holds NaN .*; its spectra still work"):
        engine.attention(TEXT, "decoder", 2).result()
    for layer in (1, 2):
        with pytest.raises(EngineError, match="queries or keys that are NaN or infinite"):
            engine.table("explain", Query(layer=Head("decoder", layer), head=0, text=TEXT)).result()
    assert engine.table("explain", Query(layer=Head("decoder", 0), head=0, text=TEXT)).result().rows


@pytest.mark.parametrize("view", ["predictions", "lens", "contributions", "ablation"])
def test_nothing_is_predicted_where_a_token_that_is_not_read_makes_its_logit_infinite(
    view: str, tiny_copy: TinyModel
) -> None:
    file = tiny_copy("gpt2", with_head=True) / "model.safetensors"
    tensors = load_file(file)
    name = next(each for each in tensors if each.endswith("wte.weight"))
    tensors[name][-1, 3] = torch.inf
    save_file(tensors, file, metadata={"format": "pt"})
    engine = Engine(EngineOptions(use_cache=False, device="cpu"))
    engine.open(str(file.parent), lambda progress: None).result()
    with pytest.raises(EngineError, match=r"are infinite, nothing is predicted: .*wte\.weight holds 1 NaN or infinite"):
        engine.table(view, Query(text=TEXT)).result()
    engine.stop()
