"""Large layers: heads in steps, and whole layers that do not fit into memory, or are left to a command."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from engine.architectures import heads as cutting
from engine.service.engine import Engine
from engine.values import memory
from engine.values.errors import EngineError
from engine.values.heads import MATRICES, Head
from engine.values.options import EngineOptions
from engine.values.outline import LayerOutline
from engine.values.progress import finish
from engine.values.views import Query
from tests.conftest import CallsOf, TinyModel
from tests.engine.mathematics.dense_spectra import assert_same_spectra
from tests.exporting import exported, refusal, rows_in, run
from tests.opening import open_on_thread, run_apart, start_engine
from tests.sparse_checkpoints import SHAPES, attention_shapes, random_weights, write_checkpoint
from tests.tui.explorer import explorer
from tui.views.ranks_view import NONE

FIRST = Head("decoder", 0)


@pytest.fixture
def every_layer_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat tiny layers as large ones, one head at a time."""
    monkeypatch.setattr("engine.values.outline.LARGE_LAYER", 0)
    monkeypatch.setattr("engine.values.outline.BATCH", 1)


@pytest.mark.parametrize("model_type", ["gpt2", "t5", "deepseek_v3"])
@pytest.mark.parametrize("whole_layer", [False, True])
def test_a_layer_in_steps_gives_what_it_gives_at_once(
    model_type: str, whole_layer: bool, tiny_model: TinyModel, request: pytest.FixtureRequest
) -> None:
    folder = tiny_model(model_type)
    plain, stepping = open_on_thread(folder), open_on_thread(folder)
    expected = [finish(plain.spectra.layer(layer.name, whole_layer)) for layer in plain.outline.layers]
    request.getfixturevalue("every_layer_is_large")
    for layer, group in zip(stepping.outline.layers, expected, strict=True):
        assert_same_spectra(finish(stepping.spectra.layer(layer.name, whole_layer)), group, rtol=1e-9)


@pytest.mark.parametrize("matrices", [("Q",), ("OV",), ("K", "QK")])
def test_only_the_wanted_matrices_of_heads_are_read_and_computed(
    tiny_model: TinyModel, matrices: tuple[str, ...], calls_of: CallsOf
) -> None:
    folder = tiny_model("llama")
    everything, read = finish(open_on_thread(folder).spectra.layer(FIRST, False)), calls_of(cutting, "read_layer")
    store = open_on_thread(folder).spectra
    listed = finish(store.layer(FIRST, False, matrices)).listed([3])
    assert {each.matrix for each in listed} >= {*matrices}
    assert {*"".join(read[0][3])} == {*"".join(matrices)}
    for each in listed:
        expected = everything.spectra[3][each.matrix]
        np.testing.assert_allclose(each.singular_values, expected.singular_values, rtol=1e-9)
        assert (each.noise, each.chance_scale) == pytest.approx((expected.noise, expected.chance_scale), rel=1e-12)
    assert_same_spectra(finish(store.layer(FIRST, False)), everything, rtol=1e-9)


@pytest.mark.parametrize(
    ("heads", "d_model", "says", "minutes"),
    [(64, 8192, "8192×8192, which needs 1.6 GB", 9), (128, 16384, "16384×16384, which needs 6.4 GB", 74)],
)
def test_a_large_layer_as_a_whole_is_left_to_a_command_while_browsing(
    heads: int, d_model: int, says: str, minutes: int
) -> None:
    layer = LayerOutline("decoder", 0, heads, 8, d_model, d_model, d_model, d_model, 128, 128, "")
    room, needed = partial(memory.check_room, layer, MATRICES), memory.needed_memory(layer, "Q")
    notice = f"Q of L0 as a whole is {says} of memory; the layer takes about {minutes} minutes on one core"
    assert room(is_browsing=False, free=None) == notice
    assert room(is_browsing=True, free=21 * needed) == notice, "where there is plenty it is computed"
    assert memory.check_room(layer, "KV", is_browsing=True, free=None) == ""
    for free in (None, 19 * needed):
        with pytest.raises(EngineError, match=f"{minutes} minutes .* export MODEL spectrum --layer 0 --head all$"):
            room(is_browsing=True, free=free)
    with pytest.raises(EngineError, match=rf"{says} of memory, and .* are free; its heads still have spectra$"):
        room(is_browsing=False, free=needed - 1)


@pytest.fixture
def unbrowsed(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a model with shared keys, whose queries and outputs are too large to browse."""
    monkeypatch.setattr("engine.values.outline.LARGE_LAYER", 0)
    monkeypatch.setattr(memory, "MOST_BROWSED", memory.MATRIX_COPIES * 8 * 64 * 63)
    monkeypatch.setattr(memory, "FREE_SHARE", 0)
    return tiny_model("llama", hidden_size=64, num_attention_heads=8, head_dim=8, num_key_value_heads=2)


async def test_the_explorer_names_the_command_for_a_layer_as_a_whole_and_shows_what_it_has_kept(
    unbrowsed: Path,
) -> None:
    command = "attn-tui export MODEL spectrum --layer 0 --head all"
    engine = Engine(EngineOptions(device="cpu", use_cache=False, is_browsing=True))
    async with explorer(unbrowsed, size=(160, 50), head="L0", engine=engine) as (app, _):
        said = app.views.spectra.message
        assert said.startswith("Q of L0 as a whole is 64×64")
        assert said.endswith(command)
        *heads, whole = app.views.ranks.grid.rows
        assert set(whole[1:]) == {NONE}
        assert not any(NONE in row for row in heads)
        assert app.views.ranks.readout_line.shown.plain == said
    assert exported(unbrowsed, *command.split()[3:])
    engine = Engine(EngineOptions(is_browsing=True))
    async with explorer(unbrowsed, size=(160, 50), head="L0", engine=engine) as (app, _):
        assert [curve.matrix for curve in app.views.spectra.graph._curves] == ["Q", "K", "QK", "V", "O", "OV"]


def test_an_export_has_the_matrix_that_fits_and_refuses_others(
    unbrowsed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: memory.MOST_BROWSED)
    command = (unbrowsed, "ranks", "--layer", "0", "--head", "all", "--no-cache")
    assert refusal(*command).startswith("attn-tui: Q of L0 as a whole is 64×64")
    done = run(*command, "--matrix", "QK")
    assert [row["matrix"] for row in rows_in(done.stdout)] == ["QK"]
    assert done.stderr == ""


def test_the_command_says_how_much_memory_copying_takes_and_the_explorer_leaves_it_out(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_model("gpt2", with_head=True)
    plain = exported(folder, "circuits", "--head", "L0H0")
    monkeypatch.setattr(memory, "MOST_BROWSED", 0)
    monkeypatch.setattr(memory, "FREE_SHARE", 0)
    done = run(folder, "circuits", "--head", "L0H0")
    assert done.stderr.startswith("attn-tui: ov_copying takes the product of both tables of tokens, which needs ")
    assert done.stderr.count("\n") == 1
    assert exported(folder, "circuits", "--head", "L0H0") == plain
    assert plain[0]["ov_copying"]
    engine, notices = start_engine(folder, is_browsing=True), list[str]()
    engine.listener = notices.append
    (row,) = engine.table("circuits", Query(layer=FIRST, head=0)).result()
    named = dict(zip(plain[0], row, strict=True))
    assert named["ov_copying"] is named["ov_copying_chance"] is None
    assert str(named["ov_copying_residual"]) == plain[0]["ov_copying_residual"]
    assert [notice for notice in notices if "left empty here" in notice]


PEAK = """
import sys, torch
from engine.analysis.open_model import OpenModel
from engine.values.options import EngineOptions
from engine.values.progress import finish
from engine.values.heads import Head

def peak():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) * 1024

before = peak()
opened = OpenModel.open(sys.argv[1], EngineOptions(device="cpu", use_cache=False), lambda progress: None)
print(float(finish(opened.spectra.head(Head("decoder", 1, 1)))[0].singular_values[0]))
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_a_head_of_a_large_checkpoint_takes_little_memory(tmp_path: Path) -> None:
    shape = SHAPES["70b"]
    folder = write_checkpoint(tmp_path / "70b", shape, filled=(1,), rows=256)
    largest, taken = map(float, run_apart(PEAK, folder, OMP_NUM_THREADS="1").splitlines())
    numbers = sum(rows * columns for rows, columns in attention_shapes(shape).values())
    assert taken < 8 * numbers // 4  # a quarter of the layer's copy in float64
    query = random_weights(256, shape.d_model, "model.layers.1.self_attn.q_proj.weight")[128:]
    exact = np.linalg.norm((query.astype(np.uint32) << 16).view(np.float32).astype(np.float64), 2)
    assert largest == pytest.approx(exact, rel=1e-9)
