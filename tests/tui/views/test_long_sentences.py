"""A sentence of many hundred tokens in the explorer: parts of its maps are drawn, and what is shown is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.mathematics.attention import pool
from engine.models import attention_maps
from engine.values import memory
from engine.values.attention import AT_ONCE, AttentionMap, MapName, PooledMap
from tests.conftest import TinyModel
from tests.exporting import written
from tests.opening import no_hurry, open_reader
from tests.own_maps import eager_maps
from tests.tui.explorer import explorer, notices, press, see, shown_map, title, words

TEXT = " ".join(["the cat sat on the mat, and Mary gave a drink to John."] * 50)
CONTEXT = 520

Map = NDArray[np.float32]


@pytest.fixture
def model(tiny_model: TinyModel) -> Path:
    return tiny_model("llama", max_position_embeddings=CONTEXT)


@pytest.fixture
def layers(model: Path) -> list[Map]:
    """Give what the model itself returns, layer by layer."""
    ids = open_reader(model).read(TEXT, no_hurry).ids
    assert len(ids) == CONTEXT
    assert len(ids) ** 2 > AT_ONCE
    return eager_maps(model, ids)[""]


def assert_is(pooled: PooledMap, weights: Map) -> None:
    """Compare what is painted with the pooled weights."""
    full = AttentionMap(pooled.name, pooled.query_tokens, pooled.key_tokens, weights)
    expected = pool(full, pooled.window)
    np.testing.assert_allclose(pooled.values, expected.values, rtol=0, atol=1e-5)
    np.testing.assert_allclose(pooled.means, expected.means, rtol=0, atol=1e-5)
    assert pooled.largest == pytest.approx(expected.largest, abs=1e-5)


async def test_maps_are_shown_pooled_then_in_single_weights_for_heads_and_means_and_one_key_writes_all(
    model: Path, layers: list[Map], folder: Path
) -> None:
    seen = []
    async with explorer(model, text=TEXT, head="L1H2") as (app, pilot):
        await see(pilot, "3", title="attention L1H2", readout="max 0.9865", text="max of")
        assert "first 520 of" in title(app)
        assert shown_map(app).name == MapName("decoder", 1, 2)
        block = shown_map(app).window.block
        assert block > 16
        assert_is(shown_map(app), layers[1][2])
        await press(pilot, "G", "home", "unbound:heatmap.fit")
        query, key = app.views.attention.heatmap.cursor
        cell = layers[1][2][(CONTEXT - 1) // block * block :, :block]
        assert layers[1][2][query, key] == pytest.approx(cell.max(), abs=1e-5)
        assert_is(shown_map(app), layers[1][2])
        await see(pilot, readout=f"q {query} ")
        await press(pilot, "<")
        for move, expected in (
            ("{", layers[0][2]),
            ("[", layers[0][1]),
            ("}", layers[1][1]),
            ("a", layers[1].mean(0)),
            ("a", np.mean([layer[1] for layer in layers], axis=0)),
            ("a", np.mean(layers, axis=(0, 1))),
            ("a", layers[1][1]),
        ):
            await press(pilot, move)
            seen.append((shown_map(app), expected))
            assert_is(*seen[-1])
        await press(pilot, "]", "]", "e", "v")
        assert notices(app)[-1].startswith(f"{CONTEXT**2:,} rows, ")
    for pooled, expected in seen:
        assert_is(pooled, expected)
    rows = written(folder, "*.csv")
    weights = np.array([float(row["weight"]) for row in rows], dtype=np.float32).reshape(CONTEXT, CONTEXT)
    np.testing.assert_allclose(weights, layers[1][3], rtol=0, atol=1e-5)
    assert [int(row["key"]) for row in rows[:CONTEXT]] == list(range(CONTEXT))


async def test_maps_that_do_not_fit_are_refused_and_spectra_work(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with explorer(model, text="the cat", head="L0H0", size=(120, 40)) as (app, pilot):
        monkeypatch.setattr(attention_maps, "UNCHECKED_BYTES", 0)
        monkeypatch.setattr(memory, "free_memory", lambda: 1000)
        app.main.read(TEXT)
        await see(pilot, text="σ₁")
        assert "one layer's maps of 520 tokens" in words(app).replace("│", "")
