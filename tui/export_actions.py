"""The key that takes things out of the explorer: a menu of what can be written."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from engine.store.log import write_log
from engine.values.errors import EngineError, Superseded
from tui.beside import begin
from tui.key_groups import TAKING_AWAY
from tui.messages import ViewFilled
from tui.parts import Parts

if TYPE_CHECKING:
    from tui.export.choice import Choice


class ExportActions(Parts):
    """Writes files."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "export", "Export: take away tables, matrices, pictures", id="app.export", group=TAKING_AWAY),
    ]

    @property
    def is_waiting_with_act(self) -> bool:
        """Whether the menu, or else a view, waits for what is still worked out."""
        if len(self.screen_stack) > 1:
            return bool(getattr(self.screen, "is_awaited", False))  # the menu's, which is imported when it is wanted
        return super().is_waiting_with_act

    @on(ViewFilled)
    def _view_filled(self) -> None:
        """Have the menu offer what there was nothing of before."""
        if len(self.screen_stack) > 1:
            from tui.screens.export_screen import ExportScreen

            if isinstance(self.screen, ExportScreen):
                self.screen.offer_again()

    async def action_export(self, name: str = "") -> None:
        """Offer what can be written, or write it under a name; keys that come at once wait for it."""
        from tui.screens.export_screen import ExportScreen

        self.clear_notifications()
        await self.push_screen(ExportScreen(self.conductor.exporting, name), self._export_chosen)

    def _export_chosen(self, chosen: tuple[Choice, Path, bool] | None) -> None:
        """Write what was chosen."""
        if chosen is not None:
            begin(self, partial(self._export, *chosen), "export", is_alone=False)

    async def _export(self, choice: Choice, path: Path, may_replace: bool) -> None:
        """Write a file and say what is in it and where it is."""
        says = self.conductor.exporting.says(choice.what)
        try:
            written = await self.conductor.exporting.write(choice, path, may_replace=may_replace)
        except Superseded:
            self.notify("nothing of the file is left", title="stopped")
        except EngineError as error:
            self.notify(str(error), severity="error")
        except Exception as error:  # a file that could not be made is no reason to lose what is on screen
            self.notify(write_log(error), severity="error")
        else:
            self.notify(written, title=f"{says}: written")
