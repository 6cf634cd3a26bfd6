"""Opening a model without the explorer: progress on standard error, and a word on what ctrl+c leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.values.errors import EngineError
from engine.values.memory import size
from tui.status_line import StatusLine

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.outline import ModelOutline
    from engine.values.progress import Progress


def open_headless(engine: Engine, model: str, status: StatusLine) -> ModelOutline:
    """Open a model, downloading it if it must be, and wait for it.

    Raises
    ------
    EngineError : when it cannot be opened, or its download is interrupted, with what can be done next.
    """
    told: list[Progress] = []

    def show(progress: Progress) -> None:
        told[:] = [progress]
        status.show(progress)

    try:
        return engine.open(model, show).result()
    except KeyboardInterrupt:
        if not told or told[0].unit != "bytes" or told[0].finished:
            raise
        engine.stop(1.0)  # so that nothing is written over what is said next
        raise EngineError(
            f"stopped {told[0].activity}; {size(told[0].done)} of {size(told[0].total)} are here and are kept: "
            "the same command goes on from there"
        ) from None
