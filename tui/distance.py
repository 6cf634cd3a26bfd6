"""QK with the key at a distance from the query: asked for, moved, and put away again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from engine.values.errors import EngineError, Superseded
from tui.beside import Run

if TYPE_CHECKING:
    from tui.app import Explorer
    from tui.comparing import Comparing
    from tui.tables import Tables
    from tui.weights import Weights


class Distance:
    """Turns what is shown of an open model's QK.

    Parameters
    ----------
    app : whose spectra these are.
    weights, tables, comparing : what follows the distance.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    """

    def __init__(self, app: Explorer, weights: Weights, tables: Tables, comparing: Comparing, run: Run) -> None:
        self._app = app
        self._weights = weights
        self._tables = tables
        self._comparing = comparing
        self._run = run
        self._wanted: int | None = None
        """Where to turn once it is known that there is QK at a distance; None where nothing waits for that."""

    @property
    def refusal(self) -> str:
        """Why there is none of this model, where its type alone says so."""
        return self._weights.knowledge.outline.no_rotation

    def toggle(self) -> None:
        """Show QK with the key at a distance from the query, 0 to begin with, or without positions again.

        While the first such QK is worked out, a second press is one too many and changes nothing.
        """
        if self._is_refused():
            return
        if self._wanted is not None or self._weights.is_turning:
            self._app.key_line.say("QK at a distance is being worked out …")
        elif self._weights.distance is None:
            self._go_to(0)
        else:
            self._turn(None)

    def put(self, distance: int) -> None:
        """Show QK with the key at this distance from the query."""
        if not self._is_refused():
            self._go_to(distance)

    def _is_refused(self) -> bool:
        """Say why there is no QK at a distance here, if there is none."""
        if self.refusal:
            self._app.notify(self.refusal, severity="warning")
            return True
        is_chosen = self._app.conductor.selected is not None
        choose = "QK at a distance is that of a head or a layer; choose one"
        said = self._comparing.why_not_turned if is_chosen else choose
        if said:
            self._app.key_line.say(said)
        return bool(said)

    async def _begin(self) -> None:
        """Turn nothing at first, once there is something to be seen; where a model has no rotary positions, say so."""
        await self._weights.learned.wait()
        name = self._app.conductor.selected or self._weights.knowledge.outline.layers[0].name
        try:
            await asyncio.wrap_future(self._app.engine.spectra(name.whole_layer, name.is_layer, "first distance", 0))
        except Superseded:
            raise
        except EngineError as error:
            self._want(None)
            self._app.notify(str(error), severity="warning")
        else:
            wanted, self._wanted = self._wanted, None
            self._turn(wanted)

    def _go_to(self, distance: int) -> None:
        """Show QK at a distance, or have the first such QK be at it that is being worked out, or now is."""
        if self._wanted is None and self._weights.distance is not None:
            self._turn(distance)
            return
        if self._wanted is None:
            self._run(self._begin, "begin distance")
        self._want(distance)

    def _want(self, distance: int | None) -> None:
        """Say in the titles at once where it will be turned; None takes that back."""
        self._wanted = distance
        self._weights.announce(distance)
        self._tables.turn(distance, is_announced=distance is not None)
        self._comparing.announce(distance)

    def step(self, step: int) -> None:
        """Move the key away from the query, or nearer, where QK is shown at a distance."""
        shown = self._weights.distance if self._wanted is None else self._wanted
        if shown is not None:
            self._go_to(max(shown + step, 0))

    def _turn(self, distance: int | None) -> None:
        """Show everything of QK at a distance, or without positions (None)."""
        self._app.views.spectra.graph.is_at_distance = distance is not None
        self._weights.turn(distance)
        self._tables.turn(distance)
        self._comparing.draw()
