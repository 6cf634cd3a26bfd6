"""The second model's spectra of what is selected, which are drawn over the open one's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.spectra import SpectraGroup, Spectrum
from tui.beside import Run
from tui.patience import patiently

KEPT = 64
"""Layers' spectra that are remembered."""

Key = tuple[Head, bool, int | None]
"""A layer, whether it is meant as a whole, and at which distance QK is."""


class OtherSpectra:
    """What is known of a second model's spectra.

    Parameters
    ----------
    engine : who computes.
    name : what that model is called.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    draw : called when more has become known.
    """

    def __init__(self, engine: Engine, name: str, run: Run, draw: Callable[[], None]) -> None:
        self.name = name
        self._engine = engine
        self._run = run
        self._draw = draw
        self._known: dict[Key, SpectraGroup | EngineError] = {}

    def ask(self, name: Head, distance: int | None) -> None:
        """Ask for the spectra of a head's layer, or of a whole layer, unless they are known."""
        key = (name.whole_layer, name.is_layer, distance)
        if key not in self._known:
            self._run(partial(self._fetch, key), "other spectra")

    async def _fetch(self, key: Key) -> None:
        """Learn them, or why there are none."""
        layer, whole_layer, distance = key
        asked = self._engine.spectra(layer, whole_layer, "other spectra", distance, of_other=True)
        answer = await patiently(asked, lambda: None)
        self._known[key] = answer
        for oldest in list(self._known)[:-KEPT]:
            del self._known[oldest]
        self._draw()

    def of(self, name: Head, distance: int | None) -> Mapping[str, Spectrum]:
        """Give the spectra by matrix; none while they are not known, or where the other model has no such layer."""
        group = self._known.get((name.whole_layer, name.is_layer, distance))
        return group.spectra[name.head] if isinstance(group, SpectraGroup) else {}

    def why_not(self, name: Head, distance: int | None) -> str:
        """Say why there are none; nothing where there are, or may be."""
        found = self._known.get((name.whole_layer, name.is_layer, distance))
        return str(found) if isinstance(found, EngineError) else ""
