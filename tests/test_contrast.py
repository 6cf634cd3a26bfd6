"""What is written stands out from what is behind it, in the colours that are on screen, under every theme."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from rich.color import Color
from rich.style import Style
from textual.color import Color as Ground

from tests.explorer import HOPS, explorer, settle, type_keys
from tests.painted import good_terminal
from tui.app import Explorer
from tui.themes import ANSI, OWN, every_theme, find_theme

TEXT = "Tom has the blue book and the red book"
DRAWN = re.compile(r"[\s\u2500-\u259f\u2800-\u28ff]*")
"""Lines, blocks and dots, of plots, maps and boxes."""

MARK = re.compile(r"[\s\u2500-\u259f\u2800-\u28ff_‾·.:]*")
"""What is no letter, number or key."""

THEMES = {find_theme(name) for name in every_theme() if "ansi" not in find_theme(name)}
"""All that have colours of their own."""

OURS = {"textual-dark", "textual-light", *OWN} - {ANSI}
"""Those that a key goes through."""

VIEWS = {
    "views": ((160, 50), ("w", "1", "3"), OURS),
    "tables": ((80, 24), ("4", "x"), OURS),
    "texts": ((80, 24), ("A", "T"), OURS),
    "menus": ((80, 24), ("e", "escape", "S", "escape", "question_mark"), OURS),
    "others": ((160, 50), ("1",), THEMES - OURS),
    "menu of others": ((80, 24), ("e",), THEMES - OURS),
}
"""What is looked at: on a terminal of what size, by which keys, under which themes."""


def luminance(colour: Color) -> float:
    """Compute what WCAG 2.1 calls so."""
    shares = [each / 255 for each in colour.get_truecolor()]
    red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(style: Style) -> float:
    """Compute the contrast ratio of what is written in a style."""
    assert style.color is not None
    assert style.bgcolor is not None
    assert not style.dim, "the terminal would bring the two nearer to each other than can be known"
    dark, light = sorted((luminance(style.color), luminance(style.bgcolor)))
    return (light + 0.05) / (dark + 0.05)


def written(app: Explorer) -> Iterator[tuple[str, Style]]:
    """Give what is on screen that is no blank, with its style; of a menu over the views, what is seen of both."""
    for strip in app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if text.strip() and style is not None:
                yield text, style


def faint(app: Explorer) -> Iterator[str]:
    """Name what hardly stands out: letters, and the marks that are the cursor's."""
    for text, style in written(app):
        least = 3.0 if MARK.fullmatch(text) else 4.5
        is_of_cursor = style.reverse or not DRAWN.fullmatch(text)
        if is_of_cursor and "▀" not in text and contrast(style) < least:
            yield f"{app.theme}: {contrast(style):.2f} {text.strip()!r} {style}"


@pytest.mark.parametrize("what", VIEWS)
async def test_letters_and_cursors_stand_out_under_every_theme(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    size, keys, themes = VIEWS[what]
    found: set[str] = set()
    async with explorer("demo", text=TEXT, head="L0H3", size=size) as (app, pilot):
        for key in keys:
            await type_keys(pilot, key)
            await settle(pilot)
            for app.theme in () if key == "escape" else sorted(themes):
                for _ in range(HOPS):
                    await pilot.pause(0)
                assert app.screen_stack[0].styles.background == Ground.parse(app.theme_variables["background"])
                assert len(list(written(app))) > 20
                found.update(faint(app))
    assert not found, "\n".join(sorted(found))
