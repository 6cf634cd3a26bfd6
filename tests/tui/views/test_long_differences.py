"""Differences of a long sentence's maps: pooled from every weight, down to single ones, and few maps at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from engine.analysis.large_maps import large_maps
from engine.service.engine import Engine
from engine.values.attention import MapName, MapQuery, MapWindow, PooledMap, Pooling
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.options import EngineOptions
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, settle, shown

TEXT = " ".join(["the cat sat on the mat, and Mary gave a drink to John."] * 50)
CONTEXT = 520
OFF = Off((Head("decoder", 0, 1),))


@pytest.fixture
def pair(tiny_model: TinyModel, tmp_path: Path) -> tuple[Path, Path]:
    """Give a tiny Llama and a copy whose second layer asks the other way round and twice as strongly."""
    model = tiny_model("llama", max_position_embeddings=CONTEXT)
    other = Path(shutil.copytree(model, tmp_path / "finetuned"))
    tensors = load_file(other / "model.safetensors")
    tensors["layers.1.self_attn.q_proj.weight"] *= -2
    save_file(tensors, other / "model.safetensors", {"format": "pt"})
    return model, other


def whole_maps(folder: Path, off: Off = NOTHING_OFF) -> NDArray[np.float32]:
    """Give all maps of a model that nothing is compared with: (layers, heads, queries, keys)."""
    engine = Engine(EngineOptions(device="cpu", use_cache=False))
    engine.open(str(folder), lambda progress: None).result()
    layers = [engine.attention(TEXT, "decoder", layer, off=off).result().weights for layer in range(2)]
    engine.stop()
    assert layers[0].shape[1:] == (CONTEXT, CONTEXT)
    return np.stack(layers)


def blocks(dense: NDArray[np.float32], block: int) -> dict[Pooling, NDArray[np.float32]]:
    """Pool a dense difference block by block: what is largest in size, with its sign, and the mean."""
    parts = [np.array_split(row, range(block, CONTEXT, block), axis=1)
             for row in np.array_split(dense, range(block, CONTEXT, block))]  # fmt: skip
    return {
        "max": np.array([[part.flat[np.abs(part).argmax()] for part in row] for row in parts]),
        "mean": np.array([[part.mean(dtype=np.float64) for part in row] for row in parts]),
    }


def test_windows_are_those_of_the_dense_difference(pair: tuple[Path, Path]) -> None:
    own, theirs, without = whole_maps(pair[0]), whole_maps(pair[1]), whole_maps(pair[0], OFF)
    engine = Engine(EngineOptions(device="cpu", use_cache=False, other=str(pair[1])))
    engine.open(str(pair[0]), lambda progress: None).result()
    name, mean = MapName("decoder", 1, 2), MapName("decoder", None, None)
    cases: list[tuple[MapQuery, NDArray[Any], NDArray[Any]]] = [
        (MapQuery(TEXT, name, minuend=name), own[1, 2], theirs[1, 2]),
        (MapQuery(TEXT, mean, minuend=mean), own.mean((0, 1)), theirs.mean((0, 1))),
        (MapQuery(TEXT, name, OFF, name), own[1, 2], without[1, 2]),
        (MapQuery(TEXT, name, minuend=MapName("decoder", 0, 1)), own[1, 2], own[0, 1]),
        (MapQuery(TEXT, name, OFF, MapName("decoder", 1, 0)), without[1, 2], without[1, 0]),
    ]
    for query, before, now in cases:
        dense = now - before

        def ask(window: MapWindow, query: MapQuery = query) -> PooledMap:
            return engine.pooled(query, window).result()

        for pooling, expected in blocks(dense, 48).items():
            pooled = ask(MapWindow(48, range(99), range(99), pooling))
            np.testing.assert_allclose(pooled.values, expected, rtol=0, atol=1e-6)
            assert pooled.largest == pytest.approx(np.abs(expected).max(), abs=1e-6)
            part = ask(MapWindow(48, range(2, 5), range(1, 3), pooling))
            np.testing.assert_array_equal(part.values, pooled.values[2:5, 1:3])
            assert part.largest == pooled.largest, "one scale for all of the map"
        single = ask(MapWindow(1, range(300, 340), range(200, 230)))
        np.testing.assert_allclose(single.values, dense[300:340, 200:230], rtol=0, atol=1e-6)
        lines = engine.map_lines(query, (400, 7)).result()
        assert lines.is_signed
        np.testing.assert_allclose(lines.row, dense[400], rtol=0, atol=1e-6)
        np.testing.assert_allclose(lines.column, dense[:, 7], rtol=0, atol=1e-6)
        held = large_maps(engine._model)._layers  # type: ignore[arg-type]
        assert len(held) <= 2, "no more than two layers' maps"
    plain = engine.pooled(MapQuery(TEXT, MapName("decoder", 0, 3)), MapWindow(1, range(9), range(9))).result()
    np.testing.assert_allclose(plain.values, own[0, 3, :9, :9], rtol=0, atol=1e-6)
    assert len(large_maps(engine._model)._layers) == 1  # type: ignore[arg-type]
    assert not large_maps(engine._model._other)._layers  # type: ignore
    engine.stop()


async def test_d_draws_them_in_the_explorer(pair: tuple[Path, Path]) -> None:
    own, theirs = whole_maps(pair[0])[1, 3], whole_maps(pair[1])[1, 3]
    engine = Engine(EngineOptions(other=str(pair[1])))
    async with explorer(pair[0], head="L1H3", text=TEXT, engine=engine, ascii_only=True) as (app, pilot):
        pane = app.views.attention
        for keys, is_signed in (("3", False), ("D", True), ("D", False), ("D", True)):
            await pilot.press(keys)
            await settle(pilot)
            drawn = pane.heatmap.pooled
            assert drawn is not None
            assert drawn.is_signed is is_signed
            assert ("other less this" in shown(pane.title_line)) is is_signed, "in few words, beside how much is read"
        assert drawn is not None
        assert drawn.window.block > 1
        np.testing.assert_allclose(
            drawn.values, blocks(theirs - own, drawn.window.block)["max"][drawn.window.rows.start :], rtol=0, atol=1e-5
        )
        assert f"max of {drawn.window.block}x{drawn.window.block}" in shown(pane.legend_line)
        assert shown(pane.readout_line).startswith(f"max {drawn.values[0, 0]:+.4f}  ")
        await pilot.press("G")
        assert shown(pane.readout_line).startswith(f"max {drawn.values[-1, 0]:+.4f}")
        await pilot.press("f")
        await settle(pilot)
        query, key = pane.heatmap.cursor
        difference = theirs[query, key] - own[query, key]
        assert abs(difference) > 0.01
        assert shown(pane.readout_line).endswith(f"  {difference:+.4f}")
