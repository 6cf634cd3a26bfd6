"""Of a layer as a whole, the matrices that fit into memory are shown, and the others are said to be left out."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.analysis import whole_layers
from engine.analysis.open_model import OpenModel
from engine.service.engine import Engine
from engine.values.options import EngineOptions
from engine.values.progress import finish
from tests.conftest import TinyModel
from tests.engine.analysis.test_large_layers import FIRST, assert_same, session
from tests.exporting import run
from tests.tui.explorer import explorer, screen_text
from tui.panes.ranks import NONE

NEED_BOTH = ("angle", "overlap", "symmetric_identity_floor")
"""What the names of columns begin with that compare what queries and keys read, or values and outputs."""


@pytest.fixture
def queries_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let queries and outputs of a small layer with shared keys be what browsing leaves out."""
    monkeypatch.setattr("engine.values.outline.LARGE_LAYER", 0)
    monkeypatch.setattr(whole_layers, "MOST_BROWSED", whole_layers.MATRIX_COPIES * 8 * 64 * 63)
    monkeypatch.setattr(whole_layers, "FREE_SHARE", 0)


SHARED: dict[str, int] = {
    "hidden_size": 64, "num_attention_heads": 8, "head_dim": 8, "num_key_value_heads": 2
}  # fmt: skip


@pytest.mark.usefixtures("queries_are_too_large")
def test_what_fits_of_a_layer_is_there_beside_the_same_chance(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder = tiny_model("llama", **SHARED)
    whole = finish(session(folder).spectra.layer(FIRST, True))
    expected = {each.matrix: each for each in whole.of(-1)}
    options = EngineOptions(device="cpu", is_browsing=True)
    for _ in range(2):  # computed, and from the cache
        opened = OpenModel.open(str(folder), options, lambda progress: None)
        group = finish(opened.spectra.layer(FIRST, True))
        found = {each.matrix: each for each in group.of(-1)}
        assert list(found) == ["K", "V", "QK", "OV"]
        assert group.lacking.startswith("Q and O of L0 as a whole are up to 64×64")
        for name, each in found.items():
            assert each.noise == pytest.approx(expected[name].noise, rel=0.1)
        frobenius, spectral = opened.spectra._arrays[FIRST]["|Q|"][0]
        query = expected["Q"].singular_values
        assert frobenius == pytest.approx(np.linalg.norm(query))
        assert 0.9 * query[0] < spectral < 1.0001 * query[0]
        for matrix, each in found.items():
            np.testing.assert_allclose(each.singular_values, expected[matrix].singular_values, rtol=1e-9)
            assert each.chance_scale == pytest.approx(expected[matrix].chance_scale, rel=1e-9)
            np.testing.assert_array_equal(each.chance, expected[matrix].chance)
    asked = OpenModel.open(str(folder), EngineOptions(device="cpu"), lambda progress: None)
    assert_same(finish(asked.spectra.layer(FIRST, True)), whole)
    again = OpenModel.open(str(folder), options, lambda progress: None)
    assert_same(finish(again.spectra.layer(FIRST, True)), whole)
    assert not finish(again.spectra.layer(FIRST, True)).lacking, "what is kept is shown"


@pytest.mark.usefixtures("queries_are_too_large")
async def test_what_fits_of_a_layer_is_on_screen_and_the_rest_is_said(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama", **SHARED)
    options = EngineOptions(device="cpu", use_cache=False, is_browsing=True)
    command = "attn-tui export MODEL spectrum --layer 0 --head all"
    async with explorer(folder, size=(160, 50), head="L0", engine=Engine(options)) as (app, _):
        assert "Q and O of L0 as a whole are up to 64×64" in screen_text(app)
        said = app.views.spectra.left_out_line
        assert said.shown.plain.endswith(command)
        assert 1 < said.size.height < 5, "it is all there, on as many lines as it takes"
        assert [curve.matrix for curve in app.views.spectra.graph._curves] == ["K", "QK", "V", "OV"]
        row = app.views.ranks.table.rows[-1]
        assert [cell == NONE for cell in row[1:]] == [True, False, False, True, False, False]
        assert app.views.ranks.readout_line.shown.plain.startswith("Q and O of L0")
    done = run(folder, *command.split()[3:])
    assert done.exit_code == 0
    async with explorer(folder, size=(160, 50), head="L0", engine=Engine(EngineOptions(is_browsing=True))) as (app, _):
        assert "Q and O of L0" not in screen_text(app)


@pytest.mark.usefixtures("queries_are_too_large")
def test_an_export_without_room_for_some_matrices_gives_the_others_and_a_line(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_layers, "free_memory", lambda: whole_layers.MOST_BROWSED)
    folder = tiny_model("llama", **SHARED)
    done = run(folder, "ranks", "--layer", "0", "--head", "all", "--no-cache")
    assert done.exit_code == 0
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert [row[3] for row in rows if row[2] == "all"] == ["K", "V", "QK", "OV"]
    assert done.stderr.startswith("attn-tui: Q and O of L0 as a whole are up to 64×64")
    assert done.stderr.count("\n") == 1
    asked = run(folder, "ranks", "--layer", "0", "--head", "all", "--matrix", "Q", "--no-cache")
    assert asked.exit_code == 1
    assert asked.stderr.startswith("attn-tui: Q of L0")
    assert run(folder, "ranks", "--layer", "0", "--head", "all", "--matrix", "QK", "--no-cache").stderr == ""


@pytest.mark.usefixtures("queries_are_too_large")
@pytest.mark.parametrize("view", ["circuits", "changes"])
def test_what_queries_and_outputs_alone_can_tell_is_empty_and_the_rest_as_it_is(
    view: str, tiny_model: TinyModel, tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_model("llama", **SHARED)
    changed = tiny_copy("llama", **SHARED)
    generator = torch.Generator().manual_seed(0)
    weights = {name: tensor + 0.01 * torch.randn(tensor.shape, generator=generator)
               for name, tensor in load_file(changed / "model.safetensors").items()}  # fmt: skip
    save_file(weights, changed / "model.safetensors", metadata={"format": "pt"})
    other = ["--vs", str(changed)] if view == "changes" else []
    command = [view, "--layer", "0", "--head", "all", "--no-cache", *other]
    everything = run(folder, *command)
    assert everything.exit_code == 0
    assert "without" not in everything.stderr
    monkeypatch.setattr(whole_layers, "free_memory", lambda: whole_layers.MOST_BROWSED)
    done = run(folder, *command)
    assert done.exit_code == 0
    assert done.stderr.startswith("attn-tui: L0 as a whole is without what W_Q and W_O alone can tell: Q and O of L0")
    assert done.stderr.count("\n") == 1
    (found,), (expected,) = (list(csv.DictReader(each.stdout.splitlines())) for each in (done, everything))
    empty = {name for name in expected if expected[name] and not found[name]}
    own = "q_", "o_", "rank_q", "rank_o", *(f"{circuit}_{what}" for circuit in ("qk", "ov") for what in NEED_BOTH)
    assert empty, "some are"
    assert all(name.startswith(own) for name in empty), empty
    assert not empty & {"qk_symmetry", "rank_qk", "rank_k", "qk_distance", "change", "k_distance", "ov_image_in_kernel"}
    for name in expected.keys() - empty - {"stack", "layer", "head"}:
        if expected[name] and not name.endswith("_chance"):
            assert float(found[name]) == pytest.approx(float(expected[name]), rel=1e-6, abs=1e-9), name
        elif expected[name]:
            assert float(found[name]) == pytest.approx(float(expected[name]), rel=0.3, abs=0.05), name
