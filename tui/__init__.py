"""The Textual application and the command line; they draw what the engine computes and know nothing of torch.

`explore` opens the explorer on a model that is in memory, from a script or a debugger.
"""

from __future__ import annotations

from typing import Any

LONGEST_STEP = 60.0
"""Seconds that are waited at most for what a model is computing when the explorer is left."""


def explore(
    model: Any,
    tokenizer: Any = None,
    *,
    text: str | None = None,
    head: str | None = None,
    name: str = "",
    example: Any = None,
    theme: str | None = None,
    ascii_only: bool = False,
) -> None:
    """Open the explorer on a PyTorch model, and come back when it is left; the model is as it was before.

    If it is left while the model runs, the layer that is being computed is waited for.

    Parameters
    ----------
    model, tokenizer, name, example : as `engine.open_module` takes them.
    text : the sentence whose attention is shown.
    head : the head, or layer, to begin at.
    theme : colours; an unknown name lists them all.
    ascii_only : whether only ASCII characters are drawn.

    Raises
    ------
    EngineError : when there is no terminal or no such theme, or no attention is found in the model, saying why.
    SystemExit : when a signal asks the program to end, with the status that a shell gives to that.
    """
    from engine.service.engine import Engine
    from tui.app.start import Start
    from tui.cli.launch import run_explorer
    from tui.toolkit.themes import find_theme

    engine = Engine.of_module(model, tokenizer, name, example)
    start = Start(model=name or type(model).__name__, text=text, head=head)
    try:
        run_explorer(engine, start, theme=theme and find_theme(theme), ascii_only=ascii_only)
    finally:
        engine.stop(LONGEST_STEP)  # for a model in use is not as it was before
