"""What is written stands out from what is behind it, in the colours that the terminal shows, under every theme."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from rich.color import Color
from rich.console import COLOR_SYSTEMS
from rich.style import Style
from textual.color import Color as Ground
from textual.theme import BUILTIN_THEMES

from tests.tui.explorer import HOPS, explorer, press
from tests.tui.painted import contrast_ratio, good_terminal
from tui.app.explorer import Explorer
from tui.toolkit.line_filters import nearest
from tui.toolkit.themes import ANSI, OWN

TEXT = "Tom has the blue book and the red book"
DRAWN = re.compile(r"[\s\u2500-\u259f\u2800-\u28ff]*")
"""Lines, blocks and dots, of plots, maps and boxes."""

OURS = set(OWN) - {ANSI}
"""Those that have colours of their own."""

KEYS = ("w", "3", "4", "A", "T", "e", "escape", "question_mark")
"""What leads to all views, and to menus over them."""

TERMINALS = {"truecolor": "truecolor", "256": ""}
"""The COLORTERM of a terminal of so many colours, in rich's words."""


def shown(colour: Color, colours: str) -> tuple[int, int, int]:
    """Give what a terminal of so many colours shows of a colour."""
    return colour.downgrade(COLOR_SYSTEMS[colours]).get_truecolor()


def contrast(style: Style, colours: str) -> float:
    """Compute the contrast ratio of text in a style."""
    assert style.color is not None
    assert style.bgcolor is not None
    assert not style.dim, "how dim a terminal shows text is unknown"
    return contrast_ratio(shown(style.color, colours), shown(style.bgcolor, colours))


def written(app: Explorer) -> set[tuple[str, Style]]:
    """Return the text on screen with its style; of a menu over the views, what is seen of both."""
    strips = app.screen._compositor.render_strips()
    return {(text, style) for strip in strips for text, style, _ in strip if text.strip() and style is not None}


def faint(theme: str, parts: set[tuple[str, Style]], colours: str) -> Iterator[str]:
    """Describe letters that hardly stand out, and marks of the cursor."""
    for text, style in parts:
        least = 4.5 if any(map(str.isalnum, text)) else 3.0
        if (style.reverse or not DRAWN.fullmatch(text)) and "▀" not in text and contrast(style, colours) < least:
            yield f"{theme}: {contrast(style, colours):.2f} {text.strip()!r} {style}"


@pytest.mark.parametrize("colours", TERMINALS)
async def test_letters_and_cursors_stand_out_under_every_theme(colours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    monkeypatch.setenv("COLORTERM", TERMINALS[colours])
    found: set[str] = set()
    async with explorer("demo", text=TEXT, head="L0H3", size=(130, 36)) as (app, pilot):
        for key in KEYS:
            await press(pilot, key)
            for app.theme in () if key == "escape" else sorted(OURS):
                for _ in range(HOPS):
                    await pilot.pause(0)
                assert app.screen_stack[0].styles.background == Ground.parse(app.theme_variables["background"])
                parts = written(app)
                assert len(parts) > 20
                found.update(faint(app.theme, parts, colours))
    assert not found, "\n".join(sorted(found))


async def test_letters_have_the_terminals_own_colour_under_the_ansi_theme(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    monkeypatch.setenv("COLORTERM", "")
    monkeypatch.setenv("TERM", "screen")
    async with explorer("demo", text=TEXT, head="L0H3") as (app, pilot):
        assert app.theme == ANSI
        for key in ("w", "e", "escape", "question_mark"):
            await press(pilot, key)
            inks = [style.color for text, style in written(app) if not DRAWN.fullmatch(text)]
            assert len(inks) > 20
            assert [ink for ink in inks if ink is not None and not ink.is_default] == [], key


@pytest.mark.parametrize("theme", ["textual-dark", "nord", "dracula", "solarized-light"])
def test_greyish_grounds_stay_so_with_256_colours(theme: str) -> None:
    for name in ("background", "surface", "panel"):
        ground = Ground.parse(BUILTIN_THEMES[theme].to_color_system().generate()[name]).rgb
        sent = shown(Color.from_ansi(nearest(ground)), "256")
        spread, half_a_step = max(ground) - min(ground), 5
        assert max(sent) - min(sent) <= spread, (name, ground, sent)
        assert max(abs(a - b) for a, b in zip(sent, ground, strict=True)) <= spread + half_a_step, (name, ground, sent)
