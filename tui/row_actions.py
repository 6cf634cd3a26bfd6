"""What keys about a head mean in a table whose rows are heads: the head of the row under the cursor."""

from __future__ import annotations

from collections.abc import Mapping

from textual import on
from textual.actions import ActionParseResult, parse
from textual.dom import DOMNode

from engine.values.heads import Head
from engine.values.views import VIEWS, Scope
from tui.key_names import key_of
from tui.messages import PutOff
from tui.parts import Parts

STEPS = ("step_head", "step_layer")
"""Actions that go on from a head to another one."""

TO_A_VIEW = ("maps", "compare", "difference", "text", "overview")
"""Actions that lead to a view of the head, or of its layer, whatever they are given."""


class RowActions(Parts):
    """An application in which keys about a head are about a row's, where the cursor has been moved to that."""

    _stayed: tuple[str, Head] | None = None
    """The view of which it was said last that its rows lead to no head, and the head that stayed selected."""

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key does; one about a head that works anywhere is of the head of the row under the cursor."""
        if default_namespace is self and self.is_ready:
            _, name, parameters = parse(action) if isinstance(action, str) else action
            if name in STEPS or name in TO_A_VIEW or (name == "view" and _is_of_head(str(parameters[0]))):
                if self.views.put_behind(action):
                    return True
                self.take_row(is_step=name in STEPS, view=str(parameters[0]) if name == "view" else "")
        return await super().run_action(action, default_namespace, namespaces)

    @on(PutOff)
    async def _put_off(self, event: PutOff) -> None:
        """Do what came behind what waited for a row, which is said no longer."""
        self.key_line.hush()
        await self.run_action(event.action, self)

    def take_row(self, *, is_step: bool = False, view: str = "") -> None:
        """Select the head of the row under the cursor, before a view of it is gone to or another head.

        Where the table is about the selected head, or the cursor has not been moved from where the table began, that
        one stays; so it is said once of both, but not of the model as a whole, of which such a table is.

        Parameters
        ----------
        is_step : whether another head is gone to from there.
        view : which view is gone to, where it is known; what is looked at already is none to go to.
        """
        pane, row, selected = self.views.active, self.views.row_head, self.session.shown.selected
        if row is None or row == selected or view == pane.view:
            return
        if not self.conductor.has(row):
            return
        if self.views.chosen_head is not None:
            if is_step or self.conductor.ways is None:
                self.conductor.go_to(row)
            else:
                self.conductor.ways.jump(row)
        elif not is_step and selected is not None and self._stayed != (pane.view, selected):
            self._stayed = (pane.view, selected)
            enter = key_of(self, "table.choose")
            self.key_line.say(f"{selected} stays selected; in {pane.view} {enter} selects a row's head, there {row}")


def _is_of_head(view: str) -> bool:
    """Say whether a view shows the selected head or its layer, or a cell of the head's map."""
    return view not in VIEWS or VIEWS[view].scope is not Scope.MODEL
