"""Opening another model in the running explorer: the present one stays until the other is there."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from engine.values.errors import EngineError
from engine.values.views import VIEWS
from tui.beside import begin
from tui.key_groups import PROGRAM
from tui.key_watch import KeyWatch
from tui.start import Start

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.outline import ModelOutline
    from tui.screens.opened_model import Opened
    from tui.views import Views


class ModelActions(KeyWatch):
    """An application in which another model can be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("B", "models", "Open another model", show=False, id="app.models", group=PROGRAM),
    ]

    def action_models(self) -> None:
        """Let another model be chosen, over the present one."""
        if self.conductor.is_open:
            self.choose_model(is_first=False)

    def choose_model(self, *, is_first: bool, trouble: str = "", named: str = "") -> None:
        """Show the opening screen, with what was wrong before; what is chosen there, or named, is opened there, too."""
        from tui.screens.chooser import ChooserScreen

        self.clear_notifications()
        self.push_screen(ChooserScreen(self.engine, is_first=is_first, trouble=trouble, named=named), self._chosen)

    def refuse_pair(self, why: str) -> None:
        """Leave where both models were named; where the first was chosen here, let another one be chosen."""
        if self.start.model is not None:
            self.fail(why)
        else:
            begin(self, partial(self._choose_again, why), "change model", is_alone=False)

    async def _choose_again(self, why: str) -> None:
        """Put the model away that was chosen, and go back to where it was."""
        self.await_model(False)
        await self._put_away(self.start)
        self.tree_widget.clear()
        self.tree_widget.title_line.name_measure("")
        self.model_line.show("")
        self.choose_model(is_first=True, trouble=why)

    def _chosen(self, opened: Opened | None) -> None:
        """Put the model that was opened in the place of the present one; without one, leave where there is none."""
        if opened is not None:
            begin(self, partial(self._change_to, opened), "change model", is_alone=False)
        elif not self.conductor.is_open:
            self.exit()

    async def _change_to(self, opened: Opened) -> None:
        """Put the present model away, and begin with another."""
        start = self._start_with(opened)
        view = self.views.active.view
        is_in_tree = self.screen_stack[0].focused is self.tree_widget
        await self._put_away(start, opened.engine)
        opening: Future[ModelOutline] = Future()
        opening.set_result(opened.outline)
        self.conductor.open(opening)
        self._return_to(view, self.views, is_in_tree)
        self.fill_focus()
        self.refresh_bindings()
        await self._remember(opened)

    async def _put_away(self, start: Start, engine: Engine | None = None) -> None:
        """Put the present model away with everything that shows it; another engine may take the place of its own.

        Views and what decides about them are made anew, so that nothing of the old model can be left in them.
        """
        self.conductor.close()
        self._conductor = None  # keys that need the views wait for the new ones
        self.engine.close()
        self.engine = engine or self.engine
        self.prompt.close()
        self.screen_stack[0].set_focus(self.tree_widget)
        self.sentence_input.show_read("", None)
        is_zoomed = self.views.has_class("-zoomed")
        with self.batch_update():
            await self.views.remove()
            await self.make_views(start)
        self.views.set_class(is_zoomed, "-zoomed")  # as the screen is

    def _return_to(self, view: str, views: Views, is_in_tree: bool) -> None:
        """Look at the view that was looked at before, where the model has it."""
        pane = next((each for each in views.panes if each.view == view), None)
        needs_two = view in VIEWS and "vs" in VIEWS[view].needs and not self.engine.is_comparing
        if pane is not None and is_in_tree:
            views.activate(pane)
        elif pane is not None or (view in VIEWS and not needs_two):
            self.conductor.show_view(view)

    async def _remember(self, opened: Opened) -> None:
        """Have the model listed among those that were opened before."""
        try:
            await asyncio.wrap_future(opened.engine.remember(opened.name))
        except EngineError:
            return  # the list is a convenience

    def _start_with(self, opened: Opened) -> Start:
        """Say how to begin: as the command line asked where it named no model, else with the present sentence."""
        if self.conductor.is_open:
            present = self.conductor
            return replace(
                self.start,
                model=opened.name,
                text=present.text,
                head=None,
                epsilon=None,
                epsilon_before=self.session.shown.epsilon,
            )
        start = replace(self.start, model=opened.name)
        if start.head is None:
            return start
        from engine.values.heads import parse_head

        try:
            opened.outline.layer(parse_head(start.head, opened.outline.stacks))
        except EngineError as error:
            self.notify(str(error), severity="warning")
            return replace(start, head=None)
        return start
