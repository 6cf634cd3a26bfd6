"""The explorer: the program around the screen, and how it opens one model after the other.

The first frame is painted before NumPy and torch are imported; what needs them is made after that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType

from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, parse_head
from engine.values.progress import DONE, Progress
from tui.app.main_screen import MainScreen
from tui.app.start import Start
from tui.drawing.facts import comparison_line, short_name
from tui.state.saved_state import model_key, recall, recall_choice, remember_choice, save_shown
from tui.state.sentences import Sentences
from tui.state.session import Session, Shown
from tui.toolkit.application import TerminalApp, start_work
from tui.toolkit.keys import PROGRAM, PROGRAM_KEYS, UNBOUND, key_of, shared_key
from tui.toolkit.keys import VIEWS as OF_VIEWS
from tui.toolkit.messages import SentenceProgress
from tui.toolkit.themes import ANSI, short_theme

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.outline import ModelOutline
    from engine.values.spectra import SpectraGroup
    from tui.state.stores import Stores
    from tui.views.switcher import Views

PATIENCE = 0.5
"""Seconds that typed keys wait for the model once the views are there; a download takes longer."""

LEAVING = 0.1
"""Seconds that quitting waits for a slow disk."""

OPENING_SENTENCE = "One day Tom thanked Anna for a red ball. Then Tom thanked"
"""Read unless another is given: an induction head finds what followed the last word before."""

MOST_READ = 2e9
"""Bytes up to which a model is loaded to read it; a larger one waits for a sentence that is typed."""


class Explorer(TerminalApp):
    """The application.

    Parameters
    ----------
    engine : of the open model.
    start : what to begin with.
    ascii_only : whether to draw with ASCII characters alone.

    Attributes
    ----------
    main : the screen with the tree and the views.
    on_first_head : called once, when the first head is on screen.
    """

    CSS_PATH: ClassVar[list[str | PurePath]] = [Path(__file__).with_name(name) for name in ("app.tcss", "ansi.tcss")]
    ACTION_TARGETS: ClassVar[set[str]] = {"views"}
    BINDINGS: ClassVar[list[BindingType]] = [
        shared_key("check", "", "check", "Check the heads against the model", OF_VIEWS),
        *PROGRAM_KEYS,
        shared_key("models", "B", "models", "Open another model", PROGRAM),
    ]

    def __init__(self, engine: Engine, start: Start, *, ascii_only: bool = False) -> None:
        super().__init__(ascii_only=ascii_only)
        self.engine = engine
        self.start = start
        self.sentences = Sentences(keeps=start.keeps_history, say=self.notify)
        self.on_first_head: Callable[[], None] | None = None
        self._awaits_model = False
        self._saved_as: str | None = None
        engine.listener = partial(self.notify, severity="warning")
        engine.watcher = self._report_sentence

    def get_default_screen(self) -> MainScreen:
        """Make the screen."""
        self.main = MainScreen(self.sentences)
        return self.main

    @property
    def session(self) -> Session:
        """The session of the open model."""
        return self.main.session

    @property
    def views(self) -> Views:
        """The views; they exist once the first frame is painted."""
        return self.main.views

    # --- starting and leaving

    def on_mount(self) -> None:
        """Start opening the model once the first frame is painted."""
        if self.start.model is not None:
            self.main.top_line.show(f"opening {self.start.model} …")
        self.set_keymap(self.start.config.keys)
        self.main.tree_widget.focus()
        self.main.call_later(self.call_later, self._begin)  # behind what paints the first frame

    async def _begin(self) -> None:
        """Open the named model, or the list of models, and make the views meanwhile."""
        named = self.start.model
        opening = None if named is None else self.engine.open(named, self.main.report)
        self._awaits_model = named is not None
        await self.main.make_views(self.engine, self.start)
        self.sentences.load()
        self.call_after_refresh(start_work, self, self._check_config, "config")
        if opening is None or named is None:
            self.choose_model()
        else:
            start_work(self.views, partial(self._open, opening, self.start), "open")
            self.engine.remember()
            self.set_timer(PATIENCE, self._stop_waiting)
        self.do_held_keys()

    @property
    def holds_keys(self) -> bool:
        """Whether typed keys wait for the views, or for the model that is being opened."""
        return not self.main.is_ready or self._awaits_model

    def _stop_waiting(self) -> None:
        self._awaits_model = False
        self.do_held_keys()

    @property
    def is_settled(self) -> bool:
        """Whether the screen or view that a key opened is there and has the focus."""
        return super().is_settled and (not self.main.is_ready or self.views.has_opened.is_set())

    def on_typed(self) -> None:
        """Clear the message about the last key; from the first key on, the person selects heads."""
        self.main.key_line.clear_message()
        self.main.guide.stop_leading()

    def on_command(self, binding: str) -> None:
        """Close the lines for the first minute with a key that leads on."""
        self.main.guide.dismiss_by(binding)

    def watch_app_focus(self, is_looked_at: bool) -> None:
        """Give the focus to a part again when the terminal gets it back: the part that had it may be gone."""
        if is_looked_at and self.main.is_ready:
            self.main.fill_focus()

    async def action_quit(self) -> None:
        """Leave at once, whatever is running."""
        self.leave(0)

    def leave(self, status: int) -> None:
        """Stop the engine, save what is shown, and leave."""
        self.engine.stop()
        saving = threading.Thread(target=self._save, daemon=True)
        saving.start()
        saving.join(LEAVING)
        self.exit(return_code=status)

    def _save(self) -> None:
        """Save what is shown for the next start, unless nothing is to be restored; waits for the disk."""
        if self._saved_as is not None and self.main.stores is not None:
            save_shown(self._saved_as, self.session.shown)

    def fail(self, message: str) -> None:
        """Leave with an error, which is printed once the terminal is restored."""
        self.failure = message
        self.exit(return_code=1)

    def on_unmount(self) -> None:
        """End the thread that saves sentences: it would keep the explorer, and with it the model, in memory."""
        self.sentences.close()

    def _report_sentence(self, progress: Progress) -> None:
        self.main.post_message(SentenceProgress(progress))  # on the engine's thread

    # --- opening a model

    async def _open(self, opening: Future[ModelOutline], start: Start) -> None:
        """Show a model while it opens: its tree once the headers are read, its first head, and then the rest."""
        main = self.main
        try:
            outline = await asyncio.wrap_future(opening)
            first, is_first_time = await self._first_shown(outline, start)
        except Superseded:
            return
        except EngineError as error:
            self.fail(str(error))
            return
        main.report(DONE)
        view = first.pop("view")
        if (text := first["waiting_text"]) is not None:
            main.sentence_input.show_read(text, None)
        stores = main.show_model(self.engine, outline)
        self.session.change(**first)
        if is_first_time:
            dismiss = partial(asyncio.to_thread, remember_choice, "guide", "dismissed")
            main.guide.begin(partial(start_work, self, dismiss, "guide"))
            main.draw_guide()
        if self.engine.is_comparing:
            start_work(self.views, partial(self._compare, stores), "compare")
        self.call_after_refresh(self._stop_waiting)
        if not self.engine.has_stored_spectra:  # importing torch stalls the event loop, so the tree is drawn first
            await self._wait_for_frame()
        views = self.views
        if not views.has_chosen_view and views.can_show(view) and (view != "compare" or self.session.shown.pins):
            views.show_view(view, takes_focus=False)
        views.draw()
        stores.spectra.get(self.session.shown.selected or first["selected"])
        await stores.spectra.has_any.wait()
        await self._wait_for_frame()
        if self.on_first_head is not None:
            self.on_first_head()
            self.on_first_head = None
        if (text := self.session.shown.waiting_text) is not None:
            main.read(text)

        def keep(*swept: Any) -> None:
            self.call_later(self._keep_swept, stores, *swept)  # from another thread

        self.engine.sweep(keep)
        await main.measure_memory()
        if start.text is None:
            await self._read_opening_sentence(stores)

    async def _first_shown(self, outline: ModelOutline, start: Start) -> tuple[dict[str, Any], bool]:
        """Take what was asked for, else saved, else usual, and say whether the explorer is used for the first time.

        `EngineError` when the model lacks the requested head.
        """
        shown, first, is_first_time = self.session.shown, dict[str, Any](), False
        self._saved_as = None
        if start.is_restoring:
            key = model_key(outline.name, self.engine.options.revision)
            first = await asyncio.to_thread(recall, key, outline)
            is_first_time = not first and start.head is None and not await asyncio.to_thread(recall_choice, "guide")
            self._saved_as = key
        if start.head is not None:
            first["selected"] = parse_head(start.head, outline.stacks)
            outline.layer(first["selected"])
        saved_text = first.pop("text", None)
        text = saved_text if start.text is None else start.text
        for each in filter(None, (text, shown.waiting_text)):
            self.sentences.add(each)
        if shown.overview != Shown().overview:
            first |= {"measure": shown.measure, "mapped": shown.mapped}
        usual = {"selected": next(outline.layers[0].head_names()), "view": shown.view}
        epsilon = start.epsilon or first.get("epsilon") or start.epsilon_before or shown.epsilon
        return {**usual, **first, "waiting_text": shown.waiting_text or text or None, "epsilon": epsilon}, is_first_time

    async def _read_opening_sentence(self, stores: Stores) -> None:
        """Unless there is another sentence, have a small model with a tokenizer read `OPENING_SENTENCE`."""
        need = None if stores.memory is None else stores.memory.need
        if need is None or need.total > MOST_READ or self.session.shown.sentence is not None:
            return
        self.session.change(waiting_text=OPENING_SENTENCE)
        try:
            await asyncio.wrap_future(self.engine.spell(OPENING_SENTENCE))
        except EngineError:
            self.session.change(waiting_text=None)
        if self.session.shown.waiting_text is not None:
            self.main.read(OPENING_SENTENCE)

    async def _wait_for_frame(self) -> None:
        is_drawn = asyncio.Event()
        self.call_after_refresh(is_drawn.set)
        await is_drawn.wait()

    async def _compare(self, stores: Stores) -> None:
        try:
            comparison = await asyncio.wrap_future(self.engine.compare(self.main.report))
        except Superseded:
            return
        except EngineError as error:
            self.fail(str(error))
            return
        self.main.top_line.show(comparison_line(comparison))
        stores.other = short_name(comparison.other)
        stores.arrived()
        for note in filter(None, (*comparison.other.notes, comparison.note)):
            self.notify(note, severity="warning")

    def _keep_swept(
        self, stores: Stores, layer: Head, is_whole: bool, group: SpectraGroup | EngineError, progress: Progress
    ) -> None:
        if self.main.stores is stores:
            stores.spectra.put(layer, is_whole, group)
            self.main.show_progress(DONE if progress.finished and is_whole else progress)

    def action_models(self) -> None:
        """Open the list of models over the present model."""
        if self.main.stores is not None:
            self.choose_model()

    def choose_model(self) -> None:
        """Show the opening screen; without an open model, leaving it leaves the program."""
        from tui.screens.chooser import ChooserScreen

        self.clear_notifications()
        self.push_screen(ChooserScreen(self.engine, is_first=self.main.stores is None), self._take_choice)

    def _take_choice(self, opened: tuple[Engine, ModelOutline] | None) -> None:
        if opened is not None:
            start_work(self, partial(self._change_to, *opened), "change model", is_alone=False)
        elif self.main.stores is None:
            self.exit()

    async def _change_to(self, engine: Engine, outline: ModelOutline) -> None:
        """Close the present model and show another with the present sentence and view."""
        main, shown, was_open = self.main, self.session.shown, self.main.stores is not None
        is_in_tree = main.focused is main.tree_widget
        start = self.start
        if was_open:
            text = self.start.text if shown.sentence in (None, OPENING_SENTENCE) else shown.sentence
            start = replace(start, text=text, head=None, epsilon=None, epsilon_before=shown.epsilon)
        self._awaits_model = True
        while len(self.screen_stack) > 1:
            self.pop_screen()  # boxes are about the old model
        await asyncio.to_thread(self._save)
        self._saved_as = None
        self.engine.close()
        self.engine = engine
        await main.make_views(engine, start)
        if self.views.can_show(shown.view):
            self.views.go_to(shown.view, takes_focus=not is_in_tree)
        main.fill_focus()
        self.refresh_bindings()
        opening: Future[ModelOutline] = Future()
        opening.set_result(outline)
        start_work(self.views, partial(self._open, opening, start), "open")
        with suppress(EngineError):  # the list is a convenience
            await asyncio.wrap_future(engine.remember())

    # --- keys, themes, help

    def action_help(self) -> None:
        """Show the keys that work now."""
        from tui.screens.help_screen import HelpScreen

        self.clear_notifications()
        stores, selected = self.main.stores, self.session.shown.selected
        marks = () if stores is None or selected is None else stores.outline.layer(selected).marks
        self.push_screen(HelpScreen(marks))

    def action_check(self) -> None:
        """Check the heads against the model's own numbers."""
        from tui.screens.check_screen import CheckScreen

        self.push_screen(CheckScreen(self.engine))

    def action_choose_theme(self, name: str) -> None:
        """Take a theme by its full name, and say which."""
        self.clear_notifications()
        if self.no_color:
            self.notify("themes need colour; unset NO_COLOR first")
            return
        self.theme = name
        if self.start.is_restoring:
            threading.Thread(target=remember_choice, args=("theme", name), daemon=True).start()
        few = " (the terminal's own colours; maps are drawn with signs)" if name == ANSI else ""
        self.notify(f"theme {short_theme(name)}{few}", timeout=2)

    def set_keymap(self, keymap: Mapping[str, str]) -> None:
        """Take other keys, or none, and name them in the empty sentence line."""
        super().set_keymap({name: keys or f"{UNBOUND}{name}" for name, keys in keymap.items()})
        begin, read = key_of(self, "app.sentence"), key_of(self, "sentence.read")
        self.main.sentence_input.placeholder = f"{begin}: type a sentence, {read} reads it"

    async def _check_config(self) -> None:
        """Show the first mistake; keys are checked on another thread, since that imports every module with keys."""
        config = self.start.config
        keys, of_keys = await asyncio.to_thread(config.checked_keys)
        self.set_keymap(keys)
        first, *others = (*config.problems, *of_keys) or ("",)
        if first:
            said = first.replace(str(config.path), config.path.name)  # the command has the whole path
            if others:
                said += f"\n… and {len(others)} more; attn-tui config lists all"
            self.notify(said, severity="warning", timeout=10)
