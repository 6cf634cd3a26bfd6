"""How the views are looked at: numbers in maps, scales, and where one is brought back."""

from __future__ import annotations

from textual import on
from textual.containers import Container, Vertical

from engine.values.views import ring_of
from tui.drawing.levels import Scale
from tui.messages import Numbered
from tui.panes.attention import AttentionPane
from tui.panes.compare import ComparePane
from tui.panes.pane import Pane
from tui.panes.spectra import SpectraPane


class ViewLooks(Container):
    """What all views share, whichever of them are on screen.

    Attributes
    ----------
    panes : all that have been made.
    active : the one that ``e`` exports, and that a small terminal shows.
    spectra, attention : those that are there from the beginning.
    """

    panes: list[Pane]
    active: Pane
    spectra: SpectraPane
    attention: AttentionPane
    _left: Vertical

    def __init__(self) -> None:
        super().__init__(id="views")
        self._is_numbered = False
        self._first_scale: Scale | None = None
        self._last_of_ring = dict[tuple[str, ...], str]()

    def last_like(self, view: str) -> str:
        """Give the view that was looked at last of those that share a key with one; that one before any was."""
        return self._last_of_ring.get(ring_of(view), view) if ring_of(view) else view

    @on(Numbered)
    def _take_numbers(self, event: Numbered) -> None:
        """Have all maps have their weights as numbers, or none."""
        event.stop()
        self.number(event.is_numbered)

    def number(self, is_numbered: bool) -> None:
        """Write weights into the cells of all maps, or not."""
        self._is_numbered = is_numbered
        self._number_what_is_seen()

    def _number_what_is_seen(self) -> None:
        """Write weights into the cells of the maps that are on screen; a hidden one would be worked out for nobody."""
        for pane in self.panes:
            if pane.display:
                pane.number(self._is_numbered)

    def choose_scale(self, scale: Scale) -> None:
        """Have spectra and maps begin on one scale, those of views to come too."""
        self._first_scale = scale
        for pane in self.panes:
            pane.begin_on(scale)

    def toggle_scale(self) -> bool:
        """Change the scale of the active view, or of what it is beside; False where none is in view."""
        if (pane := self.scaled) is not None:
            pane.toggle_scale()
        return pane is not None

    @property
    def scaled(self) -> Pane | None:
        """What has a scale: the active view; the ranks have none, so with them it is the spectra, if in view."""
        is_of_map = self.active.view == "text"
        pane = self.active if self.active.has_scale else self.attention if is_of_map else self.spectra
        is_seen = pane is not self.spectra or (self.spectra.graph.display and self._shows_spectra)
        return pane if is_seen else None

    def toggle_baseline(self) -> bool:
        """Show or hide the baseline of chance, in the spectra that are in view; False where none are."""
        graph = (self.active if isinstance(self.active, ComparePane) else self.spectra).graph
        is_seen = graph.display and (isinstance(self.active, ComparePane) or self._shows_spectra)
        if is_seen:
            graph.toggle_baseline()
        return is_seen

    @property
    def _shows_spectra(self) -> bool:
        """Whether the selected head's spectra are on screen, or soon are."""
        return self.spectra.display and self._left.display and not self.spectra.is_without_curves
