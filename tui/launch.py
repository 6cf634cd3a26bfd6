"""From the command line to a running explorer, and back to the shell with one clear line when that fails."""

from __future__ import annotations

import sys

import click

from engine.service.engine import Engine
from engine.service.options import EngineOptions
from engine.values.errors import EngineError
from tui.status_line import StatusLine


def launch(
    model: str | None,
    options: EngineOptions,
    *,
    text: str | None,
    head: str | None,
    epsilon: float,
    theme: str | None,
    ascii_only: bool,
) -> None:
    """Run the explorer until it is left.

    Raises
    ------
    EngineError : when the model cannot be opened, or there is no terminal.
    click.UsageError : when the theme is unknown.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        _refuse_without_terminal(model, options)
    from textual.theme import BUILTIN_THEMES

    if theme is not None and theme not in BUILTIN_THEMES:
        raise click.UsageError(f"there is no theme '{theme}'; choose one of {', '.join(sorted(BUILTIN_THEMES))}")
    from tui.app import Explorer
    from tui.start import Start

    start = Start(model=model, text=text, head=head, epsilon=epsilon)
    app = Explorer(Engine(options), start, ascii_only=ascii_only)
    if theme is not None:
        app.theme = theme
    app.run()
    if app.unforeseen is not None:
        raise app.unforeseen
    if app.failure:
        raise EngineError(app.failure)


def _refuse_without_terminal(model: str | None, options: EngineOptions) -> None:
    """Say what is wrong with the model, if anything is, and else that the explorer needs a terminal."""
    if model is not None:
        with StatusLine(sys.stderr) as status:
            Engine(options).open(model, status.show).result()
    raise EngineError("the explorer needs a terminal; for files and pipes use: attn-tui export MODEL VIEW")
