"""QK at a distance of key and query: spectra and ranks exported, and Δ moved with the arrow keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from engine.architectures.rules import ROTARY_TYPES, why_never_rotated
from tests.cli.test_weight_tables import turned_keys
from tests.conftest import TinyModel
from tests.exporting import attn_tui, exported, refusal, written
from tests.tiny_models import CONTEXT
from tests.tui.explorer import (
    active_table,
    command,
    explorer,
    hold,
    notices,
    outline_of,
    press,
    screen_text,
    settle,
    shown,
    titled,
    until,
)


def dense_qk(folder: Path, layer: int, distance: int) -> Tensor:
    """Form ``W_Qᵀ R_{−Δ} W_K`` of every head of a tiny Llama: (heads, d, d)."""
    model: Any = transformers.AutoModel.from_pretrained(folder)
    query: Tensor = model.layers[layer].self_attn.q_proj.weight.detach().double().unflatten(0, (-1, 8))
    turned = turned_keys(model, layer, distance)
    return query.mT @ turned.repeat_interleave(len(query) // len(turned), 0)


@pytest.mark.parametrize("distance", ["0", "3", "40"])
def test_spectra_at_a_distance_are_those_of_turned_keys_and_the_other_matrices_stay(
    tiny_model: TinyModel, distance: str
) -> None:
    folder = tiny_model("llama")
    at = ("--distance", distance)
    every: tuple[list[str], ...] = ([], ["--head", "all"])
    rows = [row for head in every for row in exported(folder, "spectrum", "--layer", "1", *head, *at)]
    plain = [row for head in every for row in exported(folder, "spectrum", "--layer", "1", *head)]
    circuits = dense_qk(folder, 1, int(distance))
    for head, dense in [*((str(number), each) for number, each in enumerate(circuits)), ("all", circuits.sum(0))]:
        found = [float(row["singular_value"]) for row in rows if (row["head"], row["matrix"]) == (head, "QK")]
        expected = torch.linalg.svdvals(dense)[: len(found)]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * float(expected[0]))
    assert [row for row in rows if row["matrix"] != "QK"] == [row for row in plain if row["matrix"] != "QK"]
    assert (rows == plain) == (distance == "0")
    ranks = exported(folder, "ranks", "--layer", "1", "--distance", distance)
    norms = {(row["head"], row["matrix"]): float(row["frobenius_norm"]) for row in ranks}
    assert norms["2", "QK"] == pytest.approx(float(circuits[2].norm()), rel=1e-5)
    assert "no QK at a distance" in refusal(tiny_model("gpt2"), "spectrum", "--distance", distance)


async def test_a_distance_can_be_typed_also_while_another_is_computed(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H2") as (app, pilot):
        await pilot.press("1")
        for word, distance in (("distance", 500), ("delta", 7), ("Δ", 11)):
            await press(pilot, "colon", *f"{word} {distance}", "enter")
            assert shown(app.views.spectra.title_line).startswith(f"spectra L1H2 Δ = {distance}")
        for wrong in ("-3", "far", "1" * 10):
            await press(pilot, "colon", *f"distance {wrong}", "enter")
            assert shown(app.main.prompt.message_line).startswith("a distance is a whole number of tokens, from 0 to")
            await pilot.press("escape")
        await press(pilot, "unbound:app.distance")
        assert "Δ" not in shown(app.views.spectra.title_line)
        free = hold(app)
        await pilot.press("1", "unbound:app.distance", "colon", *"distance 12", "enter")
        await until(pilot, lambda: "Δ = 12" in shown(app.views.spectra.title_line))
        free.set()
        await settle(pilot)
        assert shown(app.views.spectra.title_line).startswith("spectra L1H2 Δ = 12 ")


async def test_arrows_move_the_distance_and_e_exports_what_is_shown(tiny_model: TinyModel, folder: Path) -> None:
    model = tiny_model("llama")
    async with explorer(model, head="L1H2") as (app, pilot):
        free = hold(app)
        await pilot.press("1", "unbound:app.distance", "unbound:app.farther")
        assert shown(app.views.spectra.title_line).startswith("spectra L1H2 Δ = 1  computing …"), "at once"
        titles = {"4": "circuits L1H2", "6": "directions L1H2", "PC": "compare spectra 1 head"}
        for keys, title in titles.items():
            await pilot.press(*keys, "unbound:app.farther", "unbound:app.nearer")
            assert shown(app.views.active.title_line).startswith(f"{title} Δ = 1")
        await pilot.press("P", "1")
        free.set()
        await settle(pilot)
        assert shown(app.views.spectra.title_line).startswith("spectra L1H2 Δ = 1  ")
        await press(pilot, "unbound:app.nearer")
        assert "Δ = 0" in shown(app.views.spectra.title_line)
        await pilot.press(*["right"] * 9, *["left"] * 6)  # as fast as keys come
        await settle(pilot)
        assert shown(app.views.spectra.title_line).startswith("spectra L1H2 Δ = 3")
        await press(pilot, "e", "v")
        at_three = written(folder, "*L1H2-distance3-spectrum.csv")
        assert at_three == exported(model, "spectrum", "--head", "L1H2", "--distance", "3")
        await press(pilot, "2")
        assert "Δ = 3" in shown(app.views.ranks.title_line)
        await press(pilot, "e", "v")
        ranks = written(folder, "*L1-distance3-ranks.csv")
        every = [exported(model, "ranks", "--layer", "1", *head, "--distance", "3") for head in ([], ["--head", "all"])]
        assert ranks == [row for table in every for row in table]
        await press(pilot, "4", "unbound:app.farther")
        assert titled(active_table(app).title_line) == "circuits L1H2 Δ = 4"
        await press(pilot, "6", "unbound:app.nearer", "unbound:app.nearer", "]")
        assert titled(active_table(app).title_line) == "directions L1H3 Δ = 2"
        await press(pilot, "e", "v")
        directions = written(folder, "*L1H3-distance2-directions.csv")
        assert directions == exported(model, "directions", "--head", "L1H3", "--distance", "2")
        await press(pilot, "5")
        assert titled(active_table(app).title_line) == "composition L1H3  from layer 0", "nothing depends on positions"
        await press(pilot, "6", "P", "[", "C", "unbound:app.farther")
        assert "Δ = 3" in shown(app.views.active.title_line)
        await press(pilot, "e", "v")
        compared = written(folder, "*L1H3-L1H2-distance3-spectrum.csv")
        pair = [exported(model, "spectrum", "--head", head, "--distance", "3") for head in ("L1H3", "L1H2")]
        assert compared == [*pair[0], *pair[1]]
        await press(pilot, "1", *["left"] * 5)
        assert "Δ = 0" in shown(app.views.spectra.title_line), "a key is never after the query"
        await press(pilot, "unbound:app.distance")
        assert "Δ" not in shown(app.views.spectra.title_line)
        await pilot.press("home", "right")
        await pilot.pause()
        assert app.views.spectra.graph.index == 2, "the arrows move the cursor again"


@pytest.mark.parametrize("view", ["spectrum", "ranks", "circuits", "directions"])
def test_a_distance_past_the_context_is_exported_with_a_note(tiny_model: TinyModel, view: str) -> None:
    folder = tiny_model("llama")
    for distance, said in ((CONTEXT - 1, ""), (CONTEXT, f"Δ = {CONTEXT} is past the context of {CONTEXT} tokens")):
        done = attn_tui("export", folder, view, "--head", "L1H2", "--distance", str(distance))
        assert done.returncode == 0
        assert said in done.stderr
        assert bool(done.stderr) == bool(said)


async def test_titles_say_where_no_sentence_has_the_distance(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H2", size=(110, 30)) as (app, pilot):
        said = f"Δ = {CONTEXT}, past the context of {CONTEXT} tokens"
        await press(pilot, "1", "P", "unbound:app.distance")
        app.views.spectra.action_turn(CONTEXT - 1)
        await settle(pilot)
        assert "past" not in shown(app.views.spectra.title_line)
        await pilot.press("right")
        for view in ("1", "2", "4", "C"):
            await press(pilot, view)
            assert said in shown(app.views.active.title_line)


async def test_without_rotary_positions_a_distance_is_refused_before_the_engine_is_asked(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await press(pilot, "1")
        selected = app.session.shown.selected
        free = hold(app)
        await pilot.press("unbound:app.distance", "right")
        await pilot.pause()
        assert "Δ" not in screen_text(app)
        (said,) = notices(app)
        assert said == "type 'gpt2' has no rotary positions that attn-tui knows, so there is no QK at a distance"
        assert (app.views.spectra.graph.index, app.session.shown.selected) == (2, selected)
        free.set()
        app.clear_notifications()
        await command(pilot, "distance 5")
        assert notices(app) == [outline_of(app).no_rotation]


def test_no_rotary_type_is_said_to_rotate_nothing() -> None:
    said = [name for name in transformers.CONFIG_MAPPING if why_never_rotated(name, {})]
    assert {"gpt2", "bert", "t5"} <= set(said)
    for name in said:
        kind = transformers.CONFIG_MAPPING[name].model_type
        assert kind in (name, "evolla") or kind not in ROTARY_TYPES, name  # Evolla's own files say evolla
    assert why_never_rotated("llava", {"text_config": {"model_type": "llama"}}) == ""
