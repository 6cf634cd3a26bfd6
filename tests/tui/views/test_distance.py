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
from tests.exporting import exported, refusal, written
from tests.tiny_models import CONTEXT
from tests.tui.explorer import explorer, hold, notices, outline_of, press, screen_text, see, title, until


def dense_qk(folder: Path, layer: int, distance: int) -> Tensor:
    """Form ``W_Qᵀ R_{−Δ} W_K`` of every head of a tiny Llama: (heads, d, d)."""
    model: Any = transformers.AutoModel.from_pretrained(folder)
    query: Tensor = model.layers[layer].self_attn.q_proj.weight.detach().double().unflatten(0, (-1, 8))
    turned = turned_keys(model, layer, distance)
    return query.mT @ turned.repeat_interleave(len(query) // len(turned), 0)


def whole_layer(folder: Path, view: str, *options: str) -> list[dict[str, str]]:
    """Export what is said of L1: of its heads, and of the layer as a whole."""
    return [row for of in ((), ("--head", "all")) for row in exported(folder, view, "--layer", "1", *of, *options)]


@pytest.mark.parametrize("distance", ["0", "3", "40"])
def test_spectra_at_a_distance_are_those_of_turned_keys_and_others_stay(tiny_model: TinyModel, distance: str) -> None:
    folder = tiny_model("llama")
    rows, plain = whole_layer(folder, "spectrum", "--distance", distance), whole_layer(folder, "spectrum")
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
            await see(pilot, ":", *f"{word} {distance}", "enter", title=f"spectra L1H2 Δ = {distance}")
        for wrong in ("-3", "far", "1" * 10):
            await see(pilot, *f":distance {wrong}", "enter", text="a distance is a whole number of tokens")
            await pilot.press("escape")
        await see(pilot, "unbound:app.distance", no_text="Δ")
        free = hold(app)
        await pilot.press("1", "unbound:app.distance", "colon", *"distance 12", "enter")
        await until(pilot, lambda: "Δ = 12" in title(app))
        free.set()
        await see(pilot, title="spectra L1H2 Δ = 12 ")


async def test_arrows_move_the_distance_and_e_exports_what_is_shown(tiny_model: TinyModel, folder: Path) -> None:
    model = tiny_model("llama")
    farther, nearer = "unbound:app.farther", "unbound:app.nearer"
    async with explorer(model, head="L1H2") as (app, pilot):
        await press(pilot, "1", "unbound:app.distance", "unbound:app.farther", "unbound:app.farther")
        await press(pilot, "unbound:app.nearer")
        await see(pilot, title="spectra L1H2 Δ = 1  ")
        await see(pilot, nearer, title="spectra L1H2 Δ = 0")
        await pilot.press(*["right"] * 9, *["left"] * 6)  # as fast as keys come
        await see(pilot, view="spectra")
        for keys, said, file, commands in (
            ([], "spectra L1H2 Δ = 3", "L1H2-spectrum", ["spectrum --head L1H2"]),
            (["2"], "ranks layer 1 Δ = 3", "L1-ranks", ["ranks --layer 1", "ranks --layer 1 --head all"]),
            (["4", farther], "circuits L1H2 Δ = 4", "L1-circuits", ["circuits --layer 1"]),
            (
                ["6", nearer, nearer, "]"], "directions L1H3 Δ = 2", "L1H3-directions",
                ["directions --head L1H3"],
            ),
            (
                ["P", "[", "C", farther], "compare spectra 2 heads Δ = 3", "L1H3-L1H2-spectrum",
                ["spectrum --head L1H3", "spectrum --head L1H2"],
            ),
        ):  # fmt: skip
            await see(pilot, *keys, title=said)
            await press(pilot, "e", "v")
            distance = ("--distance", said[-1])
            expected = [row for each in commands for row in exported(model, *each.split(), *distance)]
            assert written(folder, f"*{file}.csv") == expected
        await see(pilot, "5", titled="composition L1H2  from layer 0", no_text="Δ")  # nothing depends on positions
        await see(pilot, "1", *["left"] * 5, title="spectra L1H2 Δ = 0")  # a key is never after the query
        await see(pilot, "unbound:app.distance", no_text="Δ")
        await press(pilot, "home", "right")
        assert app.views.spectra.graph.index == 2, "the arrows move the cursor again"


async def test_titles_say_where_no_sentence_has_the_distance(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H2", size=(110, 30)) as (app, pilot):
        said = f"Δ = {CONTEXT}, past the context of {CONTEXT} tokens"
        await press(pilot, "1", "P", "unbound:app.distance")
        app.views.spectra.action_turn(CONTEXT - 1)
        await see(pilot, no_text="past")
        await pilot.press("right")
        for view in ("1", "2", "4", "C"):
            await see(pilot, view, text=said)


async def test_without_rotary_positions_a_distance_is_refused_before_the_engine_is_asked(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await press(pilot, "1")
        selected = app.session.shown.selected
        free = hold(app)
        await pilot.press("unbound:app.distance", "right")
        await pilot.pause()
        assert "Δ" not in screen_text(app)
        said = "type 'gpt2' has no rotary positions that attn-tui knows, so there is no QK at a distance"
        assert notices(app) == [said] == [outline_of(app).no_rotation]
        assert (app.views.spectra.graph.index, app.session.shown.selected) == (2, selected)
        free.set()
        app.clear_notifications()
        await press(pilot, *":distance 5", "enter")
        assert notices(app) == [said]


def test_no_rotary_type_is_said_to_rotate_nothing() -> None:
    said = [name for name in transformers.CONFIG_MAPPING if why_never_rotated(name, {})]
    assert {"gpt2", "bert", "t5"} <= set(said)
    for name in said:
        kind = transformers.CONFIG_MAPPING[name].model_type
        assert kind in (name, "evolla") or kind not in ROTARY_TYPES, name  # Evolla's own files say evolla
    assert why_never_rotated("llava", {"text_config": {"model_type": "llama"}}) == ""
