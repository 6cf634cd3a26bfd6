"""What is asked of the engine where QK is shown at a distance of the key before the query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from tui.beside import Run
from tui.state.known_spectra import Knowledge

PAUSE = 0.3
"""Seconds without another distance after which what stands beside the selected head or layer is computed too."""


class Turned:
    """Learns an open model's spectra at distances.

    Parameters
    ----------
    engine : who computes.
    knowledge : where they are kept.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    draw : called with the head or layer of which more has become known.
    """

    def __init__(
        self,
        engine: Engine,
        knowledge: Knowledge,
        run: Run,
        draw: Callable[[Head], None],
    ) -> None:
        self._engine = engine
        self._knowledge = knowledge
        self._run = run
        self._draw = draw

    def ask(self, name: Head, distance: int | None) -> None:
        """Ask for what is not known of a head or layer at a distance; a newer distance replaces an older one."""
        if distance is None:
            return
        knowledge = self._knowledge
        beside = [] if knowledge.outline.layer(name).is_large else [not name.is_layer]
        kinds = [kind for kind in (name.is_layer, *beside) if not knowledge.has_turned(name, kind, distance)]
        self._run(partial(self._fetch, name, kinds, distance), "distance")

    async def _fetch(self, name: Head, kinds: list[bool], distance: int) -> None:
        """Learn spectra at a distance: the head's first, then those of its layer's heads, then the whole layer's.

        ``kinds`` are those that are not known, by whether they are of the whole layer.
        """
        engine, knowledge, whole_layer = self._engine, self._knowledge, name.is_layer
        try:
            if not name.is_layer and name.is_layer in kinds:
                alone = await asyncio.wrap_future(engine.head_spectra(name, "distance", distance))
                knowledge.learn_turned_head(name, distance, alone)
                self._draw(name)
            for whole_layer in kinds:
                if whole_layer != name.is_layer:
                    await asyncio.sleep(PAUSE)
                group = await asyncio.wrap_future(engine.spectra(name.whole_layer, whole_layer, "distance", distance))
                knowledge.learn_turned(name, whole_layer, distance, group)
                self._draw(name)
        except Superseded:
            raise
        except EngineError as error:
            knowledge.learn_turned(name, whole_layer, distance, error)
            self._draw(name)
