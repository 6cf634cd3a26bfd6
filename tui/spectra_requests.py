"""What is asked of the engine for spectra beside those that are looked at, and when ranks are measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.spectra import SpectraGroup, Spectrum
from tui.state.known_spectra import GroupKey, Knowledge, measured
from tui.toolkit.tasks import Run, patiently

AT_ONCE = 6_000
"""Singular values up to which measuring takes at most two milliseconds."""


class Measuring:
    """Measures the spectra that are known, and says when many of them have been measured.

    Parameters
    ----------
    knowledge : which keeps the spectra and the rows.
    run : awaits work beside the event loop.
    tell : told of which layer the rows are there now.
    """

    def __init__(self, knowledge: Knowledge, run: Run, tell: Callable[[Head], None]) -> None:
        self._knowledge = knowledge
        self._run = run
        self._tell = tell
        self._wanted: dict[GroupKey, float] = {}
        self._is_working = False

    def among(self, names: Sequence[Head], epsilon: float) -> tuple[Head, ...]:
        """Give the names whose rows are there, or will be in no time; of the others measuring begins."""
        missing = self._knowledge.unmeasured([(name.whole_layer, name.is_layer) for name in names], epsilon)
        if sum(group.size for group in missing.values()) <= AT_ONCE:
            return tuple(names)
        self._wanted |= dict.fromkeys(missing, epsilon)
        if not self._is_working:
            self._is_working = True
            self._run(self._work, "measuring")
        return tuple(name for name in names if (name.whole_layer, name.is_layer) not in missing)

    async def _work(self) -> None:
        """Measure one layer after the other, until nothing more is wanted."""
        try:
            while self._wanted:
                key = next(iter(self._wanted))
                epsilon = self._wanted.pop(key)
                for group in self._knowledge.unmeasured([key], epsilon).values():
                    self._knowledge.keep_rows(key, epsilon, await asyncio.to_thread(measured, group, epsilon))
                    self._tell(key[0])
        finally:
            self._is_working = False


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
