"""The models that are already on this machine, when none was named."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from engine.service.engine import Engine
from engine.values.memory import size


class ChooserScreen(ModalScreen[str | None]):
    """A list of the demo and the models of the local Hub cache."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,ctrl+c", "leave", "Quit", id="chooser.quit"),
        Binding("j", "move(1)", "Down", show=False, id="chooser.down"),
        Binding("k", "move(-1)", "Up", show=False, id="chooser.up"),
    ]

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._list = OptionList(Option(Text("demo  shipped with attn-tui"), id="demo"), markup=False)

    def compose(self) -> ComposeResult:
        """Show the list."""
        with Vertical(id="chooser"):
            yield Label("models on this machine; others: attn-tui MODEL", markup=False)
            yield self._list
            yield Label("enter opens · j k or arrows move · q or esc leaves", markup=False)

    def on_mount(self) -> None:
        """Look into the cache."""
        self._list.focus()
        self.run_worker(self._look())

    async def _look(self) -> None:
        """Add the cached models."""
        for model in await asyncio.wrap_future(self._engine.cached_models()):
            self._list.add_option(Option(Text(f"{model.name}  {size(model.size)}"), id=model.name))

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        """Take what was chosen."""
        self.dismiss(event.option_id)

    def action_leave(self) -> None:
        """Choose none."""
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        if step > 0:
            self._list.action_cursor_down()
        else:
            self._list.action_cursor_up()
