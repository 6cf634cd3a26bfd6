"""Maps of models with unusual attention are right, or declined in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from engine.models import attention_maps
from engine.models.attention_maps import returned_probabilities
from engine.models.reader import Reader
from engine.values.errors import EngineError
from engine.values.heads import Head
from tests import tiny_models
from tests.engine.models.test_attention import SENTENCE, assert_maps_of_model, assert_same_maps, shown_maps
from tests.opening import no_hurry, one_line, open_reader
from tests.own_maps import eager_maps, own_maps
from tests.tiny_configurations import save_tiny, tiny_configuration


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


@pytest.mark.parametrize("window", [4, 8, 64])
def test_the_band_of_longformer_is_placed_on_the_diagonal(window: int, tmp_path: Path) -> None:
    reader = open_reader(save_tiny("longformer", tmp_path, attention_window=[window] * 2))
    reader.read(SENTENCE, no_hurry)
    for layer in reader.modules:
        module, states = call(reader, layer)
        expected = softmax_near(products(module.query, module.key, states) / 8**0.5, window // 2)
        np.testing.assert_allclose(reader.layer_maps(layer).weights, expected, rtol=0, atol=1e-5)


def test_a_band_beside_global_tokens_is_declined() -> None:
    module = type("LongformerSelfAttention", (nn.Module,), {})()
    band, others = torch.full((1, 6, 4, 5), 0.1), torch.full((1, 4, 6, 6), 0.1)
    assert attention_maps.probabilities_of(module, (torch.zeros(1, 6, 8), band), 4, 6) is not None
    assert attention_maps.probabilities_of(module, (torch.zeros(1, 6, 8), band, others), 4, 6) is None
    assert "globally" in (attention_maps.reason_without_map(module, (), 4, 6, 6) or "")


def test_the_encoder_of_led_is_a_band_too() -> None:
    torch.manual_seed(0)
    config: Any = tiny_configuration("led", attention_window=[4, 4])
    model = tiny_models.build(config)
    kept: list[Any] = []
    attention = model.encoder.layers[0].self_attn
    attention.register_forward_pre_hook(lambda module, args, kwargs: kept.append(kwargs), with_kwargs=True)
    ids = torch.arange(3, 13)[None]
    with torch.no_grad():
        model(ids, decoder_input_ids=ids)
        returned = attention(**kept[0] | {"output_attentions": True})
    inner = attention.longformer_self_attn
    scores = products(inner.query, inner.key, kept[0]["hidden_states"][0, :10]) / 8**0.5
    found = attention_maps.probabilities_of(attention, returned, 4, 10)
    assert found is not None
    torch.testing.assert_close(found[0], softmax_near(scores, 2), rtol=0, atol=1e-5)


@pytest.mark.parametrize("radius", [2, 6, 127])
def test_the_blocks_of_longt5_are_placed_on_the_diagonal(radius: int, tmp_path: Path) -> None:
    folder = save_tiny("longt5", tmp_path, local_radius=radius, encoder_attention_type="local")
    reader = open_reader(folder)
    tokens = len(reader.read(SENTENCE, no_hurry).ids)
    first: Any = reader.modules[Head("encoder", 0)]
    away = distances(tokens)
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


def test_scores_that_prophetnet_returns_become_probabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = open_reader(save_tiny("prophetnet", tmp_path))
    tokens = len(reader.read(SENTENCE, no_hurry).ids)
    softmax = nn.functional.softmax
    made: list[Tensor] = []

    def keeping(*args: Any, **kwargs: Any) -> Tensor:
        made.append(softmax(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(nn.functional, "softmax", keeping)
    for layer in reader.modules:
        made.clear()
        weights = reader.layer_maps(layer).weights
        np.testing.assert_allclose(weights, made[0][0, :, :tokens], rtol=0, atol=1e-6)


def test_scores_that_squeezebert_returns_become_probabilities() -> None:
    model = tiny_models.build(tiny_models.configuration("squeezebert", embedding_size=32))
    module: Any = model.encoder.layers[0].attention
    attended: list[Tensor] = []
    module.matmul_qkv.register_forward_pre_hook(lambda _, args: attended.append(args[0]))
    with torch.no_grad():
        returned = module(torch.randn(1, 32, 9), torch.zeros(1, 1, 1, 9), True)
    found = attention_maps.probabilities_of(module, returned, 4, 9)
    assert found is not None
    torch.testing.assert_close(found, attended[0])


def test_big_bird_attends_in_full_to_a_short_sentence_and_declines_a_long_one(tmp_path: Path) -> None:
    folder = save_tiny("big_bird", tmp_path, block_size=2, num_random_blocks=1, max_position_embeddings=64)
    reader = open_reader(folder)
    sentence = reader.read("The cat sat.", no_hurry)
    assert len(sentence.ids) <= 14
    full: Any = transformers.AutoModel.from_pretrained(folder, attention_type="original_full").eval()
    assert_same_maps(shown_maps(reader), {"": own_maps(full, sentence.ids)})
    with pytest.raises(EngineError, match=r"more than 14 tokens in sparse blocks.*spectra") as caught:
        reader.read(SENTENCE, no_hurry)
    assert one_line(caught.value)


def test_reformer_has_maps_of_sentences_in_one_chunk(tmp_path: Path) -> None:
    settings = {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 8], "attention_head_size": 8}
    config = tiny_models.configuration("reformer", **settings, local_attn_chunk_length=16, lsh_attn_chunk_length=16)
    reader = open_reader(tiny_models.save(tiny_models.build(config), tmp_path))
    sentence = reader.read("The cat sat.", no_hurry)
    assert len(sentence.ids) <= 16
    layer = next(iter(reader.modules))
    module, states = call(reader, layer)
    expected = (products(module.query, module.key, states) / 8**0.5).softmax(-1)
    np.testing.assert_allclose(reader.layer_maps(layer).weights, expected, rtol=0, atol=1e-5)
    reader.read(SENTENCE, no_hurry)
    with pytest.raises(EngineError, match="in chunks"):
        reader.layer_maps(layer)


DECLINED: list[tuple[str, dict[str, Any], str]] = [
    ("mra", {}, "approximates its attention"),
    ("yoso", {}, "by hashing"),
    ("pegasus_x", {}, "global states"),
    ("longt5", {"encoder_attention_type": "transient-global"}, "summaries of blocks"),
    ("cpmant", {}, "prompt tokens"),
    ("nystromformer", {"num_landmarks": 3, "segment_means_seq_len": 18}, "landmarks"),
]


@pytest.mark.parametrize(("model_type", "settings", "reason"), DECLINED)
def test_why_there_is_no_map_is_one_line(
    model_type: str, settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    reader = open_reader(save_tiny(model_type, tmp_path, **settings))
    reader.read(SENTENCE, no_hurry)
    with pytest.raises(EngineError, match=reason) as caught:
        reader.layer_maps(next(iter(reader.modules)))
    line = one_line(caught.value)
    assert line.partition(" ")[2].startswith("L0 has no map to show: ")
    assert line.endswith("; its spectra still work")


@pytest.mark.parametrize("model_type", ["pegasus_x", "longt5", "fsmt", "bigbird_pegasus", "led"])
def test_decoders_beside_declined_encoders_have_their_maps(model_type: str, tmp_path: Path) -> None:
    folder = save_tiny(model_type, tmp_path)
    reader = open_reader(folder)
    own = eager_maps(folder, reader.read(SENTENCE, no_hurry).ids)
    for layer in (each for each in reader.modules if each.stack != "encoder"):
        np.testing.assert_allclose(reader.layer_maps(layer).weights, own[layer.stack][layer.layer], rtol=0, atol=1e-5)


def test_nystromformer_with_all_tokens_as_landmarks_attends_in_full(tmp_path: Path) -> None:
    folder = save_tiny("nystromformer", tmp_path, num_landmarks=64, segment_means_seq_len=64)
    reader = open_reader(folder)
    reader.read(SENTENCE, no_hurry)
    assert_maps_of_model(reader, folder)


@pytest.mark.parametrize("model_type", ["gemma3n_text", "gemma4_text"])
def test_a_layer_with_the_keys_of_another_attends_to_them(model_type: str, tmp_path: Path) -> None:
    own = {"laurel_rank": 4, "altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 4,
           "intermediate_size": [48] * 4} if model_type == "gemma3n_text" else {"global_head_dim": 8}  # fmt: skip
    config = tiny_models.configuration(
        model_type, num_hidden_layers=4, num_kv_shared_layers=2, sliding_window=4, head_dim=8,
        layer_types=["sliding_attention", "full_attention"] * 2, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=tiny_models.VOCABULARY, **own,
    )  # fmt: skip
    reader = open_reader(tiny_models.save(tiny_models.build(config), tmp_path))
    layers = [Head("decoder", number) for number in range(4)]
    for layer in layers:
        reader.modules[layer] = reader.model.get_submodule(f"layers.{layer.layer}.self_attn")
    sentence = reader.read(SENTENCE, no_hurry)
    expected = eager_maps(tmp_path, sentence.ids)[""]
    assert len(expected) == 4
    for layer in reversed(layers):
        assert reader._reading is not None
        call = reader._reading.calls[layer]
        with torch.inference_mode():
            returned = reader.modules[layer](*call.args, **call.kwargs)
        found = returned_probabilities(returned, 1, 4)
        assert found is not None
        np.testing.assert_allclose(found[0], expected[layer.layer], rtol=0, atol=1e-5)


def test_pooled_queries_are_declined_and_unpooled_ones_are_not() -> None:
    config = transformers.FunnelConfig(vocab_size=320, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4,
                                       d_head=8, d_inner=48, architectures=["FunnelModel"])  # fmt: skip
    model = tiny_models.build(config)
    ids = torch.arange(3, 12)[None]
    with torch.no_grad():
        attentions = model(ids, output_attentions=True).attentions
    module = next(each for each in model.modules() if type(each).__name__ == "FunnelRelMultiheadAttention")
    shapes = [tuple(attention_maps.probabilities_of(module, (None, each), 4, 9).shape[2:]) for each in attentions]  # type: ignore[union-attr]
    assert shapes[0] == (9, 9)
    assert shapes[1] != (9, 9)
    assert "pools" in (attention_maps.reason_without_map(module, (), 4, 9, 9) or "")
