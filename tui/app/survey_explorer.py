"""The explorer of a survey: reads its tables beside the event loop, again as they grow, and opens checkpoints."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from engine.surveys.measures import (
    READ_FROM,
    MeasureOverSteps,
    MeasureReader,
    labels_over_steps,
    measures_of,
    opening_measure,
)
from engine.surveys.survey_folder import FAILURES, SurveyFolder
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import head_text
from engine.values.progress import DONE, Progress
from tui.drawing.progress import progress_text
from tui.screens.survey_screen import SurveyScreen, WhereTo
from tui.state.survey_place import SurveyPlace
from tui.toolkit.application import TerminalApp, start_work
from tui.toolkit.keys import PROGRAM_KEYS
from tui.widgets.step_map import StepMap

LOOK_SECONDS = 2.0
"""How often new checkpoints are looked for."""

DRAW_SECONDS = 0.3
"""How often what has been read is drawn while more is read."""


class SurveyExplorer(TerminalApp):
    """The application.

    Parameters
    ----------
    folder : the survey.
    head : to begin at, as typed.
    ascii_only : whether only ASCII characters are drawn.
    """

    CSS_PATH: ClassVar[list[str | PurePath]] = [Path(__file__).with_name(name) for name in ("app.tcss", "ansi.tcss")]
    BINDINGS: ClassVar[list[BindingType]] = [*PROGRAM_KEYS]

    def __init__(self, folder: SurveyFolder, head: str | None = None, *, ascii_only: bool = False) -> None:
        super().__init__(ascii_only=ascii_only)
        self.folder = folder
        self._first_head = head
        self._readers: dict[str, MeasureReader] = {}

    def get_default_screen(self) -> SurveyScreen:
        """Make the screen."""
        self.main = SurveyScreen()
        self.main.on_change = self._changed
        return self.main

    def on_mount(self) -> None:
        """Read the survey once the screen has its parts."""
        self.main.call_later(start_work, self, self._begin, "begin")

    async def _begin(self) -> None:
        """Find out what the survey measures, and wait for its first table where there is none yet."""
        while not (measures := await asyncio.to_thread(measures_of, self.folder)):
            tables, failed = ", ".join(self.folder.tables), await asyncio.to_thread(lambda: self.folder.failed)
            if tables:
                self.main.message = f"{tables}: no measures of heads; add one of {', '.join(READ_FROM)}"
            elif failed:
                self.main.message = f"{quantity(failed, 'checkpoint')} failed; {FAILURES} says why"
            else:
                self.main.message = "no checkpoint has been measured yet"
            has_begun = tables or failed
            self._show_progress(DONE if has_begun else Progress("waiting for the survey's first checkpoint", 0, 0, ""))
            self.main.draw()
            await asyncio.sleep(LOOK_SECONDS)
            self.folder = SurveyFolder(self.folder.path)
        self.main.measures = measures
        self.main.change(measure=opening_measure(measures).name)

    def _changed(self, before: SurveyPlace, after: SurveyPlace) -> None:
        if before.model != after.model:
            self.main.labels = ()
        if (before.model, before.measure) != (after.model, after.measure):
            start_work(self, self._read, "read")

    async def _read(self) -> None:
        """Read the measure that is shown, and whatever is added to it, for as long as it is shown."""
        name = self.main.place.measure
        measure = next(each for each in self.main.measures if each.name == name)
        reader = self._readers.setdefault(name, MeasureReader(measure))
        if before := await asyncio.to_thread(reader.models):
            await self._show(before)
        while True:
            steps, due, is_new = reader.read(self.folder), time.monotonic(), False
            while (how_far := await asyncio.to_thread(next, steps, None)) is not None:
                is_new = True
                self._show_progress(Progress("reading", *how_far, "checkpoints"))
                if time.monotonic() >= due:
                    self.main.show(await asyncio.to_thread(reader.models))
                    due = time.monotonic() + DRAW_SECONDS
            if is_new:
                await self._show(await asyncio.to_thread(reader.models))
                self._show_progress(DONE)
            await asyncio.sleep(LOOK_SECONDS)
            self.folder = SurveyFolder(self.folder.path)

    async def _show(self, models: Mapping[str, MeasureOverSteps]) -> None:
        self.main.show(models)
        if (shown := self.main.shown) is not None:
            labels = await asyncio.to_thread(labels_over_steps, self.folder, shown.checkpoints, shown.heads)
            self.main.models = await asyncio.to_thread(lambda: len({each.model for each in self.folder.checkpoints}))
            self.main.failed = await asyncio.to_thread(lambda: self.folder.failed)
            self.main.show(models, labels)
            self._go_to_first_head()

    def _go_to_first_head(self) -> None:
        name, self._first_head = self._first_head, None
        try:
            WhereTo(self.main).answer(name or "")
        except EngineError as error:
            self.main.key_line.show_message(str(error))

    def _show_progress(self, progress: Progress) -> None:
        self.main.top_line.progress = "" if progress.finished else progress_text(progress)

    # --- keys

    def on_typed(self) -> None:
        """Let a message go at the next key."""
        self.main.key_line.clear_message()

    @on(StepMap.Chosen)
    def _chosen(self) -> None:
        """Open the checkpoint under the cursor at the head, in an explorer of its own that comes back to this one."""
        checkpoint, head = self.main.checkpoint, self.main.head
        if checkpoint is None or head is None:
            return
        if checkpoint.is_on_hub and Path(checkpoint.path).is_absolute():
            self.main.key_line.show_message(f"{checkpoint.path} is not here any more")
            return
        name = head_text(head, self.main.shown.stacks if self.main.shown else ())
        revision = ["--revision", checkpoint.revision] if checkpoint.is_on_hub else []
        command = [sys.executable, "-c", "from tui.entry import main; main()", checkpoint.path, "--head", name]
        self.open_explorer([*command, *revision])

    def open_explorer(self, command: list[str]) -> None:
        """Give the terminal to another program until that ends."""
        if self._driver is None or not self._driver.can_suspend:
            self.main.key_line.show_message("this terminal cannot be given to another program")
            return
        with self.suspend():
            code = subprocess.run(command, check=False).returncode
            if code:
                input("press Enter to go back to the survey ")
        self.action_redraw()

    def action_help(self) -> None:
        """Show the keys that work now."""
        from tui.screens.help_screen import HelpScreen

        self.push_screen(HelpScreen())
