"""The themes: dark, light, the terminal's own colours, and colour-blind safe ones."""

from __future__ import annotations

import difflib
from dataclasses import replace

from textual.theme import BUILTIN_THEMES, Theme

from engine.values.errors import EngineError

ANSI = "ansi"
"""The theme with the terminal's own colours."""

PALETTE = "map-palette"
"""Theme variable for the colours of maps, see `tui.drawing.ramps.PALETTES`."""

_BLUE, _SKY, _ORANGE, _VERMILION, _YELLOW = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#F0E442"
"""Colours that can be told apart without red-green vision (Okabe and Ito, 2008)."""

_DARK = {
    "text-muted": "auto 70%",
    "scrollbar-background": "#1A1A1A",
    "scrollbar": "#4F6B7E",
    "scrollbar-hover": "#487394",
}
_LIGHT = {
    "text-muted": "auto 70%",
    "scrollbar-background": "#D8D8D8",
    "scrollbar": "#667C8C",
    "scrollbar-hover": "#557288",
    "footer-key-foreground": "#004578",
}
"""Colours with more contrast than Textual's."""

_INK = "#101010"
"""Colour of letters in light themes."""

_COLOUR_BLIND = Theme(
    "colour-blind",
    primary=_BLUE,
    secondary=_SKY,
    warning=_ORANGE,
    error=_VERMILION,
    accent=_YELLOW,
    success=_ORANGE,
    foreground="#e0e0e0",
    background="#121212",
    surface="#1e1e1e",
    panel="#303030",
    variables=_DARK
    | {
        PALETTE: "cividis",
        "footer-key-foreground": _ORANGE,
        "primary": "#3892C4",
        "block-cursor-background": "#0067A1",
    },
)

OWN = {
    theme.name: theme
    for theme in (
        replace(
            BUILTIN_THEMES["textual-dark"],
            variables=_DARK | {"primary": "#409ADF", "block-cursor-background": "#0162AC"},
        ),
        replace(
            BUILTIN_THEMES["textual-light"],
            foreground=_INK,
            variables=_LIGHT | {"success": "#29653C"},
        ),
        _COLOUR_BLIND,
        replace(
            _COLOUR_BLIND,
            name="colour-blind-light",
            foreground=_INK,
            background="#E0E0E0",
            surface="#D8D8D8",
            panel="#D0D0D0",
            dark=False,
            variables=_LIGHT
            | {
                PALETTE: "cividis",
                "success": "#563C00",
                "primary": "#00629A",
                "block-cursor-background": "#0067A1",
            },
        ),
        Theme(
            ANSI,
            ansi=True,
            primary="ansi_blue",
            secondary="ansi_cyan",
            warning="ansi_yellow",
            error="ansi_red",
            success="ansi_default",
            accent="ansi_green",
            foreground="ansi_default",
            background="ansi_default",
            surface="ansi_default",
            panel="ansi_default",
            boost="ansi_default",
            variables={
                "ansi-background": "ansi_default",
                "ansi-foreground": "ansi_default",
                "border": "ansi_default",
                "border-blurred": "ansi_default",
                "scrollbar-background": "ansi_default",
                "scrollbar-background-hover": "ansi_default",
                "scrollbar-background-active": "ansi_default",
                "footer-key-foreground": "ansi_default",
            },
        ),
    )
}
"""Our own themes, by name; two are Textual's with more contrast."""

SHORT = {"dark": "textual-dark", "light": "textual-light", "cb": "colour-blind", "color-blind": "colour-blind"}
"""Short names of themes."""


def find_theme(name: str) -> str:
    """Return the full name of a theme.

    Raises
    ------
    EngineError : when no theme has that name; it suggests similar names, or lists our own themes.
    """
    if (full := known_theme(name)) is not None:
        return full
    near = difflib.get_close_matches(name.lower(), every_theme(), 3)
    instead = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(map(short_theme, OWN))};"
    raise EngineError(f"there is no theme '{name}'; {instead} attn-tui config --example lists all")


def every_theme() -> tuple[str, ...]:
    """Return the names of all themes as users write them: our own first, then Textual's."""
    return (*map(short_theme, OWN), *sorted(BUILTIN_THEMES.keys() - OWN.keys()))


def short_theme(name: str) -> str:
    """Return a theme's name as users write it.

    Examples
    --------
    >>> short_theme("textual-dark"), short_theme("colour-blind"), short_theme("nord")
    ('dark', 'colour-blind', 'nord')
    """
    return name.removeprefix("textual-") if name in ("textual-dark", "textual-light") else name


def default_theme(color_system: str | None, *, no_color: bool) -> str:
    """Choose the default theme: with few colours, the terminal's own."""
    return ANSI if no_color or color_system in (None, "standard") else "textual-dark"


def known_theme(name: str | None) -> str | None:
    """Return the full name of a theme; None where there is none of that name, such as one remembered from before."""
    full = SHORT.get(name or "", name)
    return full if full in OWN or full in BUILTIN_THEMES else None


def palette_of(theme: Theme) -> str:
    """Return the name of a theme's colours of maps; most themes name none."""
    return theme.variables.get(PALETTE, "magma")
