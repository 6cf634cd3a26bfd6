"""Starts the explorer from the command line or a notebook, and ends the process."""

from __future__ import annotations

import gc
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from engine.checkpoints.library_imports import IMPORT_LOCK
from engine.service.engine import Engine
from engine.store.files import remove_partial_files
from engine.values.errors import EngineError
from engine.values.options import EngineOptions
from tui.app.start import Start

if TYPE_CHECKING:
    from engine.surveys.survey_folder import SurveyFolder
    from tui.app.explorer import Explorer
    from tui.toolkit.application import TerminalApp

SWITCH_SECONDS = 0.0005
"""How long the event loop waits for a thread that runs Python. With Python's 5 ms the waits add up to 100 ms while a
large table is written."""

LAST_SECONDS = 0.05
"""How long the engine has to remove a half-written file when the explorer is left."""


def launch(start: Start, options: EngineOptions, *, theme: str | None, ascii_only: bool) -> None:
    """Run the explorer with `run_explorer`, and end the process."""
    gc.disable()  # until the first head is on screen
    IMPORT_LOCK.spares_event_loop = True
    sys.setswitchinterval(SWITCH_SECONDS)
    run_explorer(Engine(options), start, theme=theme, ascii_only=ascii_only, ends_process=True)


def launch_survey(folder: SurveyFolder, head: str | None, *, theme: str | None, ascii_only: bool) -> None:
    """Run the explorer of a survey until it is left.

    Raises
    ------
    EngineError : when there is no terminal.
    SystemExit : when a signal ended the explorer.
    """
    _take_terminal("in a notebook or script read the Parquet files")
    from tui.app.survey_explorer import SurveyExplorer

    _run(SurveyExplorer(folder, head, ascii_only=ascii_only), theme, is_restoring=True)


def run_explorer(
    engine: Engine, start: Start, *, theme: str | None, ascii_only: bool, ends_process: bool = False
) -> None:
    """Run the explorer on an engine until it is left; it may end the process with itself.

    Raises
    ------
    EngineError : when the model cannot be opened, or there is no terminal.
    SystemExit : when a signal ended the explorer.
    """
    _take_terminal("for files and pipes use: attn-tui export MODEL VIEW")
    from tui.app.explorer import Explorer

    app = Explorer(engine, start, ascii_only=ascii_only)
    if ends_process:
        app.on_first_head = _wake_collector
        app.finish = partial(_end_process, app)
    _run(app, theme, is_restoring=start.is_restoring)


def _wake_collector() -> None:
    """Turn the garbage collector on, for objects made from now on."""
    gc.freeze()
    gc.enable()


def _end_process(app: Explorer) -> None:
    """End the process, unless there is an error to print: a normal exit waits for Textual's threads and for torch."""
    if app.unexpected_error is None and not app.failure:
        app.engine.stop(LAST_SECONDS)
        remove_partial_files()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(app.return_code or 0)


def _run(app: TerminalApp, theme: str | None, *, is_restoring: bool) -> None:
    """Run an application until it is left, and raise what ended it."""
    from tui.state.saved_state import recall_choice
    from tui.toolkit.themes import known_theme

    app.use_theme(theme or (known_theme(recall_choice("theme")) if is_restoring else None))
    app.run()
    if app.unexpected_error is not None:
        raise app.unexpected_error
    if app.failure:
        raise EngineError(app.failure)
    if app.return_code:
        raise SystemExit(app.return_code)


def _take_terminal(otherwise: str) -> None:
    """Set up what Textual takes from the process; `EngineError`, with what to do otherwise, without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise EngineError(f"the explorer needs a terminal; {otherwise}")
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # empty it asks for nothing (no-color.org), but Textual takes it as set
    if sys.__stderr__ is None or not sys.__stderr__.isatty():
        vars(sys)["__stderr__"] = sys.__stdout__  # Textual draws on standard error
