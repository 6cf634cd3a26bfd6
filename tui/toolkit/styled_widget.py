"""A widget that computes the styles of its parts once."""

from __future__ import annotations

from typing import Any

from rich.style import Style
from textual.widget import Widget


class StyledWidget(Widget):
    """Keeps the styles of its component classes until the theme changes.

    Textual computes them again after every refresh, which took a tenth of the time to paint another head. No background
    here changes with the focus, so none of these styles does.
    """

    def __init__(self, *children: Widget, **settings: Any) -> None:
        super().__init__(*children, **settings)
        self._component_rich_styles: dict[tuple[tuple[str, ...], bool], Style] = {}

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """Return the style of a part, as Textual does."""
        found = self._component_rich_styles.get((names, partial))
        if found is None:
            found = super().get_component_rich_style(*names, partial=partial, default=default)
            self._component_rich_styles[names, partial] = found
        return found

    def notify_style_update(self) -> None:
        """Forget the styles of the theme before."""
        super().notify_style_update()
        self._component_rich_styles = {}
