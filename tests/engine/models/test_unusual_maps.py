"""Maps of models with unusual attention are right, or declined in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from engine.models.reader import Reader
from engine.values.heads import Head
from tests.engine.models.test_attention import SENTENCE, assert_same_maps, shown_maps
from tests.opening import no_hurry, open_reader, refused
from tests.own_maps import eager_maps, returned_maps
from tests.tiny_configurations import save_tiny


def call(reader: Reader, layer: Head) -> tuple[Any, Tensor]:
    """Give a layer's attention module and the states (tokens, width) that it read."""
    assert reader._reading is not None
    call = reader._reading.calls[layer]
    states = call.kwargs["hidden_states"] if "hidden_states" in call.kwargs else call.args[0]
    return reader.modules[layer], states[0, : len(reader._reading.sentence.ids)]


def products(query: nn.Module, key: nn.Module, states: Tensor) -> Tensor:
    """Project (tokens, width), cut the results into four heads, and multiply: (heads, queries, keys)."""
    with torch.no_grad():
        q, k = (projection(states).unflatten(-1, (4, -1)).transpose(0, 1) for projection in (query, key))
    made: Tensor = q @ k.mT
    return made


def distances(tokens: int) -> Tensor:
    """Give key minus query, (queries, keys)."""
    places = torch.arange(tokens)
    return places - places[:, None]


def softmax_near(scores: Tensor, most: int) -> Tensor:
    """Give the probabilities of queries that see the keys at up to some distance."""
    return scores.masked_fill(distances(scores.shape[-1]).abs() > most, -torch.inf).softmax(-1)


@pytest.mark.parametrize(
    ("model_type", "window"), [("longformer", 4), ("longformer", 8), ("longformer", 64), ("led", 4)]
)
def test_a_band_is_placed_on_the_diagonal(model_type: str, window: int, tmp_path: Path) -> None:
    reader = open_reader(save_tiny(model_type, tmp_path, attention_window=[window] * 2))
    reader.read(SENTENCE, no_hurry)
    for layer in (each for each in reader.modules if each.stack == "encoder"):
        module, states = call(reader, layer)
        own = getattr(module, "longformer_self_attn", module)
        expected = softmax_near(products(own.query, own.key, states) / 8**0.5, window // 2)
        np.testing.assert_allclose(reader.layer_maps(layer).weights, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("radius", [2, 6, 127])
def test_the_blocks_of_longt5_are_placed_on_the_diagonal(radius: int, tmp_path: Path) -> None:
    reader = open_reader(save_tiny("longt5", tmp_path, local_radius=radius, encoder_attention_type="local"))
    away = distances(len(reader.read(SENTENCE, no_hurry).ids))
    first: Any = reader.modules[Head("encoder", 0)]
    for layer in (Head("encoder", 0), Head("encoder", 1)):
        module, states = call(reader, layer)
        buckets = module._relative_position_bucket(
            away,
            num_buckets=module.relative_attention_num_buckets,
            max_distance=module.relative_attention_max_distance,
        )
        bias = first.relative_attention_bias(buckets).movedim(-1, 0).detach()
        expected = softmax_near(products(module.q, module.k, states) + bias, radius)
        np.testing.assert_allclose(reader.layer_maps(layer).weights, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("model_type", ["prophetnet", "squeezebert"])
def test_scores_that_a_module_returns_become_probabilities(
    model_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_reader(save_tiny(model_type, tmp_path))
    tokens = len(reader.read(SENTENCE, no_hurry).ids)
    softmax, made = nn.functional.softmax, list[Tensor]()

    def keeping(*args: Any, **kwargs: Any) -> Tensor:
        made.append(softmax(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(nn.functional, "softmax", keeping)
    for layer in reader.modules:
        made.clear()
        weights = reader.layer_maps(layer).weights
        np.testing.assert_allclose(weights, made[0][0, :, :tokens], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("model_type", "settings", "reason"),
    [
        ("mra", {}, "approximates its attention"),
        ("yoso", {}, "by hashing"),
        ("pegasus_x", {}, "global states"),
        ("longt5", {"encoder_attention_type": "transient-global"}, "summaries of blocks"),
        ("cpmant", {}, "prompt tokens"),
        ("nystromformer", {"num_landmarks": 3, "segment_means_seq_len": 18}, "landmarks"),
        ("funnel", {}, "pools of several tokens"),
    ],
)
def test_why_there_is_no_map_is_one_line(
    model_type: str, settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    reader = open_reader(save_tiny(model_type, tmp_path, **settings))
    ids = reader.read(SENTENCE, no_hurry).ids
    layer = Head("encoder", 0)
    if model_type == "funnel":  # whose first layer pools nothing
        expected = eager_maps(tmp_path, ids)[""][0]
        np.testing.assert_allclose(reader.layer_maps(layer).weights, expected, rtol=0, atol=1e-5)
        layer = Head("encoder", 1)
    line = refused(lambda: reader.layer_maps(layer))
    assert line.startswith(f"encoder {layer} has no map to show: ")
    assert reason in line
    assert line.endswith("; its spectra still work")


@pytest.mark.parametrize("model_type", ["pegasus_x", "longt5", "fsmt", "bigbird_pegasus", "led"])
def test_decoders_beside_declined_encoders_have_their_maps(model_type: str, tmp_path: Path) -> None:
    folder = save_tiny(model_type, tmp_path)
    reader = open_reader(folder)
    own = eager_maps(folder, reader.read(SENTENCE, no_hurry).ids)
    for layer in (each for each in reader.modules if each.stack != "encoder"):
        np.testing.assert_allclose(reader.layer_maps(layer).weights, own[layer.stack][layer.layer], rtol=0, atol=1e-5)


def test_big_bird_attends_in_full_to_a_short_sentence_and_declines_a_long_one(tmp_path: Path) -> None:
    folder = save_tiny("big_bird", tmp_path, block_size=2, num_random_blocks=1, max_position_embeddings=64)
    reader = open_reader(folder)
    sentence = reader.read("The cat sat.", no_hurry)
    assert len(sentence.ids) <= 14
    full: Any = transformers.AutoModel.from_pretrained(folder, attention_type="original_full").eval()
    assert_same_maps(shown_maps(reader), returned_maps(full, sentence.ids))
    said = refused(lambda: reader.read(SENTENCE, no_hurry))
    assert "more than 14 tokens in sparse blocks" in said
    assert "spectra" in said
