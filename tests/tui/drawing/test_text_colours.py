"""The colours of the coloured text: few, and told apart."""

from __future__ import annotations

import numpy as np
import pytest
from rich.color import Color

from tests.conftest import TinyModel
from tests.engine.models.test_attention import eager_maps
from tests.opening import no_hurry, open_reader
from tests.tui.explorer import explorer, press_slowly, screen_text, shown
from tests.tui.painted import contrast_ratio, good_terminal
from tests.tui.views.test_coloured_text import TEXT, pane_of
from tui.drawing.ramps import PALETTES, legible_styles, level_styles, pair_levels
from tui.drawing.readout import largest_weights
from tui.toolkit.line_filters import ascii_cells


async def test_text_has_half_the_maps_colours_and_reads_out_the_cursors_token(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    folder = tiny_model("gpt2")
    weights = eager_maps(folder, open_reader(folder).read(TEXT, no_hurry).ids)[""][1][2]
    async with explorer(folder, text=TEXT, head="L1H2", size=(160, 50)) as (app, pilot):
        await press_slowly(pilot, "T", "g", "g", "l", "l", "l")
        pane, heatmap = pane_of(app), app.views.attention.heatmap
        in_text, in_map = ([style.bgcolor for style in styles] for styles in (pane.keys._styles, heatmap._styles))
        assert len(set(in_map)) == 16
        assert in_text[::2] == in_text[1::2]
        assert len(set(in_text)) == 8
        assert all(colour in in_map[2 * pair : 2 * pair + 2] for pair, colour in enumerate(in_text[::2]))
        assert [style.bgcolor for style in pair_levels(heatmap._styles)] == in_text
        legend = pane.legend_line.shown
        assert {legend.get_style_at_offset(app.console, at).bgcolor for at in range(len(legend))} >= set(in_text)
        assert f"token 3 of {len(weights)} · itself {weights[3, 3]:.3f} · " in shown(pane.readout_line)
        row = np.array([0.999, 0.0006, 0.0004], np.float32)
        named = largest_weights("looks at", "abc", row, 80, None)
        assert named == 'looks at 0 "a" 0.999, 1 "b" 0.001; together 1.000', "and not what would be written as nothing"


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_levels_can_be_told_apart_without_colour(
    tiny_model: TinyModel, ascii_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with explorer(tiny_model("gpt2"), text=TEXT, head="L0H1", ascii_only=ascii_only) as (app, pilot):
        await press_slowly(pilot, "T", "G")
        pane = pane_of(app)
        region = pane.region
        text = [line[region.x : region.right] for line in screen_text(app).splitlines()[region.y : region.bottom]]
        glyphs = pane._ink.cells[int(pane.keys._levels.max())]
        ends = f"[{ascii_cells(glyphs)}]" if ascii_only else f"{glyphs}│"
        assert any(ends in line for line in text)
        assert not ascii_only or all(line.isascii() for line in text)


@pytest.mark.parametrize("ground", [(18, 18, 18), (224, 224, 224), (253, 246, 227)])
@pytest.mark.parametrize("colours", ["truecolor", "256"])
def test_letters_are_legible_on_every_level_and_have_few_colours(ground: tuple[int, int, int], colours: str) -> None:
    usual = Color.from_rgb(224, 224, 224) if ground[0] < 128 else Color.from_rgb(30, 30, 30)
    ramps = {palette: level_styles(ground, colours, palette)[1:] for palette in PALETTES}
    ramps["signed"] = level_styles(ground, colours, is_signed=True)
    for palette, styles in ramps.items():
        for style in (*legible_styles(styles, usual), *legible_styles(styles, None)):
            assert style.color is not None
            assert style.bgcolor is not None
            assert contrast_ratio(style.color.get_truecolor(), style.bgcolor.get_truecolor()) > 4.5
        types = {
            (each.color and each.color.type, each.bgcolor and each.bgcolor.type)
            for each in legible_styles(styles, None)
        }
        assert all(ink is ground for ink, ground in types), "ink is of the palette that is behind it"
        of_small_weights = sum(style.color == usual for style in legible_styles(styles, usual))
        assert of_small_weights >= 5 or palette == "cividis", "which most are"
