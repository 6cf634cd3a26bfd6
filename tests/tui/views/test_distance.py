"""QK at a distance of key and query: spectra and ranks exported, and Δ moved by keys."""

from __future__ import annotations

from pathlib import Path

import transformers

from engine.architectures.rules import ROTARY_TYPES, why_never_rotated
from tests.conftest import TinyModel
from tests.exporting import exported, written
from tests.tui.explorer import explorer, hold, notices, press, see, title, until


async def test_keys_and_numbers_move_the_distance_and_e_exports_it(tiny_model: TinyModel, folder: Path) -> None:
    model = tiny_model("llama")
    farther, nearer = "unbound:app.farther", "unbound:app.nearer"
    async with explorer(model, head="L1H2") as (app, pilot):
        await press(pilot, "1", "unbound:app.distance", "unbound:app.farther", "unbound:app.farther")
        await see(pilot, "unbound:app.nearer", title="spectra L1H2 Δ = 1  ")
        await pilot.press(*[farther] * 8, *[nearer] * 6)  # as fast as keys come
        for keys, said, file, commands in (
            ([], "spectra L1H2 Δ = 3", "L1H2-distance3-spectrum", ["spectrum --head L1H2"]),
            (["2"], "ranks layer 1 Δ = 3", "L1-distance3-ranks", ["ranks --layer 1", "ranks --layer 1 --head all"]),
            (["4", farther], "circuits L1H2 Δ = 4", "L1-distance4-circuits", ["circuits --layer 1"]),
            (["6", nearer], "directions L1H2 Δ = 3", "L1H2-distance3-directions", ["directions --head L1H2"]),
        ):  # fmt: skip
            await see(pilot, *keys, title=said)
            await press(pilot, "e", "v")
            distance = ("--distance", said[-1])
            expected = [row for each in commands for row in exported(model, *each.split(), *distance)]
            assert written(folder, f"*{file}.csv") == expected
        await see(pilot, "5", titled="composition L1H2  from layer 0", no_text="Δ")  # nothing depends on positions
        await see(pilot, "1", *[nearer] * 5, title="spectra L1H2 Δ = 0")  # a key is never after the query
        for typed in (500, 11):
            await see(pilot, ":", *f"distance {typed}", "enter", title=f"spectra L1H2 Δ = {typed}")
        await see(pilot, *":distance -3", "enter", text="a distance is a whole number of tokens")
        await pilot.press("escape")
        await see(pilot, "unbound:app.distance", no_text="Δ")
        free = hold(app)
        await pilot.press("unbound:app.distance", "colon", *"distance 12", "enter")  # while another is computed
        await until(pilot, lambda: "Δ = 12" in title(app))
        free.set()
        await see(pilot, title="spectra L1H2 Δ = 12 ")


async def test_without_rotary_positions_a_distance_is_refused(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        said = "type 'gpt2' has no rotary positions that attn-tui knows, so there is no QK at a distance"
        for keys in (("1", "unbound:app.distance"), (*":distance 5", "enter")):
            app.clear_notifications()
            await see(pilot, *keys, no_text="Δ")
            assert notices(app) == [said]


def test_no_rotary_type_is_said_to_rotate_nothing() -> None:
    said = [name for name in transformers.CONFIG_MAPPING if why_never_rotated(name, {})]
    assert {"gpt2", "bert", "t5"} <= set(said)
    for name in said:
        kind = transformers.CONFIG_MAPPING[name].model_type
        assert kind in (name, "evolla") or kind not in ROTARY_TYPES, name  # Evolla's own files say evolla
    assert why_never_rotated("llava", {"text_config": {"model_type": "llama"}}) == ""
