"""What the workers of a survey do: fetch a checkpoint, and measure it. They are given names, and give plain values."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from shutil import rmtree
from urllib.parse import quote

from engine.store.files import write_log
from engine.surveys.checkpoint_names import CheckpointName
from engine.surveys.survey_folder import SurveyFolder
from engine.values.errors import EngineError, Unreachable
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.progress import finish, tell_nobody
from engine.values.views import Query

OF_HEADS = {"ranks", "spectrum", "composition"}
"""Tables for which the weights of the heads are enough."""

DOWNLOADS = ".downloads"
"""Where in a survey's folder checkpoints lie until they are measured."""

TRIES = 3
"""How often a download is begun before its checkpoint counts as failed."""

WAIT_SECONDS = 5.0
"""Between two tries, and twice as long before the third."""


@dataclass(frozen=True)
class Order:
    """What is to be measured of one checkpoint.

    Attributes
    ----------
    checkpoint : which.
    tables : the tables that are missing, by their names.
    folder : the survey's, the same on every machine.
    query : what is asked of them.
    options : how the engine works.
    made_with : by table, all of this that its numbers depend on, as it is kept in its file.
    keeps : whether what is downloaded stays.
    """

    checkpoint: CheckpointName
    tables: tuple[str, ...]
    folder: SurveyFolder
    query: Query
    options: EngineOptions
    made_with: Mapping[str, str]
    keeps: bool = False

    def is_done(self) -> bool:
        """Say whether all its tables are there."""
        return all(self.folder.has(self.checkpoint, name, self.made_with[name]) for name in self.tables)

    @property
    def download(self) -> Path:
        """The cache that this checkpoint alone is downloaded into."""
        return self.folder.path / DOWNLOADS / quote(f"{self.checkpoint.model}@{self.checkpoint.revision}", safe="")


@dataclass(frozen=True)
class Outcome:
    """How it went.

    Attributes
    ----------
    path : where the checkpoint was found, for what comes next; empty where it failed.
    reason : why it failed; empty where it did not.
    rows : by table.
    left_out : layers that could not be measured, and why; empty where there are none.
    seconds : that it took.
    """

    path: str = ""
    reason: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    left_out: str = ""
    seconds: float = 0.0


def fetch(order: Order) -> Outcome:
    """Find a checkpoint of the Hub in the local cache, or download it."""
    return _watched(order, lambda: Outcome(str(_find(order))))


def measure(order: Order, path: str) -> Outcome:
    """Open the checkpoint at a path, and write its tables; what was downloaded for it goes unless it is to stay.

    The path may be in the cache of another machine: what is on the Hub is then found or downloaded here.
    """
    is_elsewhere = order.checkpoint.is_on_hub and not Path(path).exists()
    _end_at_once()
    try:
        return _watched(order, lambda: _write_tables(order, str(_find(order)) if is_elsewhere else path))
    finally:
        if not order.keeps:
            rmtree(order.download, ignore_errors=True)


@cache
def _end_at_once() -> None:
    """Have a worker's process end without unloading torch, which would take longer than closing the worker."""
    if multiprocessing.parent_process() is not None:
        atexit.register(os._exit, 0)


def _watched(order: Order, work: Callable[[], Outcome]) -> Outcome:
    """Do work; what goes wrong is written down for this checkpoint, and does not end the survey.

    Where the tables are there, the work is done: by a task whose worker died then, or by another survey into the same
    folder, either of which may have removed the checkpoint.
    """
    begun = time.monotonic()
    if order.is_done():
        return Outcome()
    try:
        outcome = work()
    except EngineError as error:
        outcome = Outcome(reason=str(error))
    except MemoryError:
        outcome = Outcome(reason="it does not fit into a worker's memory; give fewer --workers")
    except Exception as error:  # one checkpoint is no reason to lose the others
        outcome = Outcome(reason=write_log(error))
    if outcome.reason and order.is_done():
        outcome = Outcome()
    if outcome.reason:
        with suppress(EngineError):  # of a disk that is full, which the reason says
            order.folder.write_failure(order.checkpoint, outcome.reason)
    return replace(outcome, seconds=time.monotonic() - begun)


def _find(order: Order) -> Path:
    from engine.checkpoints.download import download_model
    from engine.checkpoints.model_folders import find_in_cache

    name, revision = order.checkpoint.model, order.checkpoint.revision
    if (here := find_in_cache(name, revision)) is not None:
        return here
    attention_only = OF_HEADS.issuperset(order.tables) and order.options.layout is None
    download = partial(download_model, name, revision, tell_nobody, order.download, attention_only)
    for number in range(1, TRIES):
        try:
            return download()
        except Unreachable:
            time.sleep(WAIT_SECONDS * number)
    return download()


def _write_tables(order: Order, path: str) -> Outcome:
    from engine.analysis import tables
    from engine.analysis.open_model import OpenModel

    model = OpenModel.open(path, order.options)
    try:
        rows: dict[str, int] = {}
        left_out: dict[Head, str] = {}
        for name in order.tables:
            table = finish(tables.table(model, name, order.query))
            left_out |= table.left_out
            rows[name] = order.folder.write(order.checkpoint, table, order.made_with[name])
    finally:
        model.close()
    said = "; ".join(f"{layer.stack} {layer} is left out: {why}" for layer, why in left_out.items())
    order.folder.write_failure(order.checkpoint, said)
    return Outcome(path, rows=rows, left_out=said)
