"""The sentence: which is read, what maps of it are known, and which of them is on screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from engine.service.engine import Engine
from engine.values.attention import AttentionMap, AttentionMaps, MapLines, MapName, MapQuery, MapWindow, Sentence
from engine.values.errors import EngineError
from engine.values.heads import DELTA, NOTHING_OFF, Off, no_attention
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from tui.drawing.view_titles import LESS_THIS_MODEL
from tui.state.session import Averaging, Session
from tui.status_line import how_far
from tui.toolkit.tasks import Run, patiently
from tui.views.attention_view import AttentionPane
from tui.waiting import Awaited, no_sentence
from tui.widgets.large_map import LargeMap

MapKey = tuple[str, int | None, bool]
"""A stack and a layer, None for the mean over the stack's layers; and whether its rollout is meant instead."""


class Reading:
    """One open model's sentence.

    Parameters
    ----------
    engine : who reads.
    session : which says what is shown.
    pane : where the map is drawn.
    outline : of the model.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    has_read : called when the model has read a sentence.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        pane: AttentionPane,
        outline: ModelOutline,
        run: Run,
        has_read: Callable[[], None],
    ) -> None:
        self._has_read = has_read
        self._engine = engine
        self._session = session
        self._pane = pane
        self._outline = outline
        self._run = run
        self._read_text: tuple[str | None, Off] = (None, NOTHING_OFF)
        self._sentence: Sentence | EngineError | None = None
        self._maps: dict[MapKey, AttentionMaps | EngineError] = {}
        self._large: MapQuery | None = None
        self._drawn: MapQuery | None = None
        self._warning = ""
        self._awaited = Awaited(outline)
        self._say: Callable[[str], None] | None = None
        session.follow(self._follow)

    def _follow(self, changed: frozenset[str]) -> None:
        """Read another sentence, or the same with other heads off, or draw another map of it."""
        shown = self._session.shown
        if shown.text is not None and (shown.text, shown.off_in_maps) != self._read_text:
            self.read()
        elif "difference" in changed:
            self._maps.clear()
            self._draw()
        elif changed & {"selected", "averaging"}:
            self._draw()

    def warn(self, warning: str) -> None:
        """Say before a sentence is typed what keeps the model from reading it, or makes it slow."""
        if warning != self._warning:
            self._warning = warning
            self._draw()

    def advance(self, progress: Progress) -> None:
        """Say how far the sentence is that is waited for, or its map."""
        self._awaited.advance(progress)
        if self._session.shown.text is not None and self._sentence is None and not progress.finished:
            self._draw()
        elif self._say is not None and not progress.finished:
            self._say(f"{progress.activity}: {how_far(progress)} …")

    async def _foresee(self) -> None:
        """Learn what is known of the first sentence before the model is begun."""
        with suppress(EngineError):  # what keeps a model from being measured is said by what needs it
            memory = await asyncio.wrap_future(self._engine.memory())
            if self._awaited.foresee(memory) and self._sentence is None:
                self._draw()

    @property
    def tokens(self) -> int:
        """How many tokens the sentence has that was read; 0 without one."""
        return len(self._sentence.ids) if isinstance(self._sentence, Sentence) else 0

    @property
    def sentence(self) -> Sentence | None:
        """The sentence that was read, as the model reads it."""
        return self._sentence if isinstance(self._sentence, Sentence) else None

    def map_lines(self, place: tuple[int, int]) -> Future[MapLines]:
        """Ask for a query's row and a key's column of the map on screen of a long sentence."""
        name = self._pane.shown_name
        text = self._session.shown.text
        assert name is not None
        assert text is not None
        return self._engine.map_lines(self._large_query(text, name), place, "map lines")

    def _large_query(self, text: str, name: MapName) -> MapQuery:
        """Name one map of a long sentence as it is looked at: by itself, or subtracted from its counterpart."""
        shown = self._session.shown
        return MapQuery(text, name, shown.off_in_maps, name if shown.difference else None)

    def read(self) -> None:
        """Have the model read the sentence; what is shown stays for a moment."""
        shown = self._session.shown
        assert shown.text is not None
        self._read_text = shown.text, shown.off_in_maps
        self._pane.await_next()
        self._sentence = None
        self._awaited.begin()
        self._maps.clear()
        if not self._awaited.is_loaded:
            self._run(self._foresee, "foreseen")
        self._run(partial(self._read, shown.text, shown.off_in_maps), "sentence")

    async def _read(self, text: str, off: Off) -> None:
        """Run the model, then ask for the map on screen."""
        self._sentence = await patiently(self._engine.read(text, "sentence", off), self._draw)
        if isinstance(self._sentence, Sentence):
            self._awaited.is_loaded = True
            self._has_read()
        self._draw()

    def change_averaging(self) -> str:
        """Go on to the next kind of mean that shows another map, and say which; a long sentence has no rollout."""
        before, is_long = self._wanted(), isinstance(self._sentence, Sentence) and self._sentence.is_long
        averaging = self._session.shown.averaging
        for _ in Averaging:
            averaging = averaging.next
            wanted = self._wanted(averaging)
            if wanted != before and not (wanted.is_rollout and is_long):
                break
        self._session.change(averaging=averaging)
        return averaging.value

    def change_difference(self) -> None:
        """Go on to what other maps are different in, or back; the rollout, which has no other, gives way to a map."""
        if self._wanted().is_rollout:
            self._session.change(averaging=Averaging.NOTHING, difference=True)
        else:
            self._session.change(difference=not self._session.shown.difference)

    def _wanted(self, averaging: Averaging | None = None) -> MapName:
        """Name the map that should be on screen; a whole layer has no head of its own, so its heads are averaged."""
        selected, averaging = self._session.shown.selected, averaging or self._session.shown.averaging
        if selected is None or averaging is Averaging.ROLLOUT:
            stack = self._outline.stacks[0] if selected is None else selected.stack
            return MapName(stack, None, None, averaging is Averaging.ROLLOUT)
        is_mean = selected.is_layer or averaging in (Averaging.HEADS, Averaging.BOTH)
        return MapName(
            selected.stack, None if averaging.over_layers else selected.layer, None if is_mean else selected.head
        )

    def _draw(self) -> None:
        """Draw the wanted map, ask for it when it is not known, or say why there is none."""
        wanted, shown = self._wanted(), self._session.shown
        is_change = wanted.stack.endswith(DELTA)
        title = f"{wanted.stack} {wanted}" if len(self._outline.stacks) > 1 else str(wanted)
        if wanted.is_rollout:
            title += " · with all heads on" if shown.off.heads else ""
        elif shown.difference and not is_change:
            title += f" · with {shown.off} less with all on" if shown.off.heads else f" · {LESS_THIS_MODEL}"
        elif shown.off.heads:
            title += f" · with {shown.off}"
        if shown.text is None:
            how, is_waiting = no_sentence(self._pane.app, self._outline, shown)
            self._pane.show_message(title, "\n".join(filter(None, (how, self._warning))), is_waiting=is_waiting)
        elif self._sentence is None:
            self._pane.show_message(title, self._awaited.message, is_waiting=True)
        elif isinstance(self._sentence, EngineError):
            self._pane.show_message(title, str(self._sentence))
        elif is_change:
            self._pane.show_message(title, no_attention(wanted.stack))
        else:
            self._draw_map(wanted, title, shown.text, self._sentence)

    def _draw_map(self, wanted: MapName, title: str, text: str, sentence: Sentence) -> None:
        """Draw one map of the sentence that was read; a long sentence's maps stay with the engine."""
        if sentence.is_long and not wanted.is_rollout:
            large = self._large_query(text, wanted)
            if wanted != self._pane.shown_name or large != self._large:

                def ask(window: MapWindow) -> None:
                    self._run(partial(self._fetch_window, large, window, sentence, title), "maps")

                self._large = large
                self._pane.await_next()
                tokens = sentence.tokens
                self._pane.begin_large(LargeMap(wanted, tokens, tokens, ask, is_signed=large.minuend is not None))
            return
        key = (wanted.stack, wanted.layer, wanted.is_rollout)
        maps = self._maps.get(key)
        if maps is None:
            self._pane.await_next()
            self._run(partial(self._fetch, key, text, title), "maps")
        elif isinstance(maps, EngineError):
            self._pane.show_message(title, str(maps))
        else:
            self._pane.show(maps, wanted, title)

    async def _fetch_window(self, large: MapQuery, window: MapWindow, sentence: Sentence, title: str) -> None:
        """Learn a rectangle of one map of a long sentence, or of a difference."""

        def waiting() -> None:
            if large.name != self._pane.shown_name or large != self._drawn:
                self._pane.show_waiting(title)

        pooled = await patiently(self._engine.pooled(large, window, "maps"), waiting)
        text = self._session.shown.text
        if text is None or large != self._large_query(text, self._wanted()):
            return
        if isinstance(pooled, EngineError):
            self._pane.show_message(title, str(pooled))
        else:
            self._drawn = large
            self._pane.receive(pooled, sentence, title)

    async def whole_map(self) -> AttentionMap:
        """Give all weights of the map on screen.

        Raises
        ------
        EngineError : when there is no map on screen, or it cannot be had any more.
        """
        if self._pane.shown is not None:
            return self._pane.shown
        text = self._session.shown.text
        if self._pane.shown_name is None or text is None:
            raise EngineError("the attention view shows nothing yet; nothing was written")
        query = self._large_query(text, self._pane.shown_name)
        return await asyncio.wrap_future(self._engine.whole_map(query))

    async def _fetch(self, key: MapKey, text: str, title: str) -> None:
        """Learn one layer's maps; of the others only the means are kept, so that memory holds few.

        What is on screen stays there for a moment, so that a map that comes soon does not make the pane blink.
        """
        stack, layer, is_rollout = key
        engine, shown = self._engine, self._session.shown
        off, is_difference = shown.off_in_maps, shown.difference
        if is_rollout:
            asked = engine.rollout(text, stack, "maps")
        elif is_difference:
            asked = engine.differences(text, stack, layer, "maps", off)
        else:
            asked = engine.attention(text, stack, layer, "maps", off)

        def say(message: str) -> None:
            self._pane.show_message(title, message, is_waiting=True)

        def waiting() -> None:
            self._say = say
            say("computing …")

        try:
            answer = await patiently(asked, waiting)
        finally:
            if self._say is say:
                self._say = None
        now = self._session.shown
        if (text, off, is_difference) == (now.text, now.off_in_maps, now.difference):
            self._maps = {kept: maps for kept, maps in self._maps.items() if kept[1] is None} | {key: answer}
            self._draw()
