"""The checkpoints of a survey: how a person names them, and the step of training that each is of."""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from engine.checkpoints.model_folders import DEMO, clean_name, is_model
from engine.values.errors import EngineError

MAIN = "main"
"""The revision of a model that is named without one."""

LOG = "log"
"""Stands for the revisions of a model whose steps are about a power of two apart."""

SETTLED_SECONDS = 5.0
"""How long nothing is written into the folder of a checkpoint before it counts as whole, in a run that goes on."""

_FILES = ("config.json", "adapter_config.json", "*.safetensors*", "*model*.bin*")
"""The files of a checkpoint's folder that its numbers depend on."""

_STEP = re.compile(r"(?:^|[-_/])(?:step|checkpoint|iter)[-_]?(\d+)")
"""How revisions and folders say their step: ``step1000``, ``checkpoint-500``, ``stage1-step1000-tokens5B``."""


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """One checkpoint.

    Attributes
    ----------
    model : an id on the Hub, a folder, or ``demo``; of a training run, the run's folder.
    revision : branch, tag or commit; in a training run the folder of the checkpoint.
    step : of the training; None where the name does not say it.
    is_of_run : whether it is a folder of a training run.
    """

    model: str
    revision: str = MAIN
    step: int | None = None
    is_of_run: bool = False

    @property
    def path(self) -> str:
        """What is opened: a folder, or an id."""
        return str(Path(self.model, self.revision)) if self.is_of_run else self.model

    @property
    def identity(self) -> tuple[str, str, int | None]:
        """What tells its rows apart from those of others: model, revision and step."""
        return self.model, self.revision, self.step

    @property
    def is_on_hub(self) -> bool:
        """Whether it is looked for in the Hub's cache, and else on the Hub."""
        return self.path != DEMO and not Path(self.path).is_dir()

    def files(self) -> str:
        """Give a text that changes when the sizes or times of a folder's weight files do; empty for any other model."""
        if not os.path.isabs(self.path):
            return ""
        found = []
        for each in sorted(each for pattern in _FILES for each in Path(self.path).glob(pattern)):
            with suppress(FileNotFoundError):  # a training run removes its old checkpoints
                found.append((each.name, each.stat().st_size, each.stat().st_mtime_ns))
        return hashlib.sha256(repr(found).encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Its folder in a survey, by Hive's convention: ``model=EleutherAI%2Fpythia-70m/revision=step1000``."""
        return Path(f"model={quote(self.model, safe='')}", f"revision={quote(self.revision, safe='')}")

    def __str__(self) -> str:
        return f"{self.model}@{self.revision}" if self.is_on_hub and self.revision != MAIN else self.path


def step_of(name: str) -> int | None:
    """Read the step of training from a revision or a folder's name.

    Examples
    --------
    >>> [step_of(name) for name in ("step1000", "checkpoint-500", "stage1-step20-tokens1B", "main")]
    [1000, 500, 20, None]
    """
    match = _STEP.search(name)
    return None if match is None else int(match[1])


def names_of(
    models: Iterable[str], branches: Callable[[str], Iterable[str]], *, waits: bool = False
) -> list[CheckpointName]:
    """List the checkpoints that models stand for, each once.

    Parameters
    ----------
    models : an id, a folder, ``id@revision``, ``id@step1000,step2000``, ``id@log``, or the folder of a training run
        with its ``checkpoint-*``.
    branches : gives the branches that a model has on the Hub.
    waits : whether training runs go on: their folders may be empty, and what has just been written is left out.

    Raises
    ------
    EngineError : when a name is empty or a path that is not there, or nothing is found where several checkpoints are
        asked for.
    """
    found = (each for model in models for each in _expanded(clean_name(model), branches, waits))
    return list(dict.fromkeys(each for each in found if not (waits and each.is_of_run) or _is_settled(Path(each.path))))


def checkpoints_of_run(folder: Path) -> list[CheckpointName]:
    """List the checkpoints that a training run has written so far, by their step; empty for any other folder."""
    found = [(step_of(each.name), each) for each in folder.glob("*") if each.is_dir() and is_model(each)]
    steps = sorted((step, each.name) for step, each in found if step is not None)
    return [CheckpointName(str(folder), name, step, is_of_run=True) for step, name in steps]


def log_spaced(steps: Mapping[int, str]) -> list[str]:
    """Choose revisions whose steps are nearest to the powers of two, the first and the last among them.

    Examples
    --------
    >>> log_spaced({step: f"step{step}" for step in (0, 1, 2, 3, 4, 6, 7, 10)})
    ['step0', 'step1', 'step2', 'step4', 'step7', 'step10']
    """
    if not steps:
        return []
    powers = (2**power for power in range(max(steps).bit_length()))
    nearest = {min(steps, key=lambda step: abs(math.log2(max(step, 0.25) / power))) for power in powers}
    return [steps[step] for step in sorted({min(steps), *nearest, max(steps)})]


def _is_settled(folder: Path) -> bool:
    try:
        changed = max(each.stat().st_mtime for each in (folder, *folder.iterdir()))
    except FileNotFoundError:  # a training run removes its old checkpoints
        return False
    return time.time() - changed > SETTLED_SECONDS


def _expanded(model: str, branches: Callable[[str], Iterable[str]], waits: bool) -> Iterator[CheckpointName]:
    if not model:
        raise EngineError("a model's name is empty; give a Hub id, a folder, or demo")
    folder = Path(os.path.abspath(Path(model).expanduser()))
    if folder.is_dir():
        of_run, step = checkpoints_of_run(folder), step_of(folder.name)
        if of_run:
            yield from of_run
        elif is_model(folder):
            if step is None:
                yield CheckpointName(str(folder))
            else:
                yield CheckpointName(str(folder.parent), folder.name, step, is_of_run=True)
        elif not waits:
            raise EngineError(
                f"{model} has neither a config.json nor checkpoint-* folders; give a model or a training run"
            )
        return
    name, at, revisions = model.partition("@")
    if at and (name == DEMO or Path(name).expanduser().is_dir()):
        raise EngineError(f"{name} has no branches, which @ would name; give it without @{revisions}")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise EngineError(f"there is no folder {name}; check the path")
    if not at:
        yield CheckpointName(name)
        return
    for revision in filter(None, revisions.split(",")):
        if revision != LOG:
            yield CheckpointName(name, revision, step_of(revision))
            continue
        steps = {step: each for each in sorted(branches(name)) if (step := step_of(each)) is not None}
        if not steps:
            raise EngineError(f"{name} has no branches on the Hub that are named after a step; name revisions instead")
        yield from (CheckpointName(name, each, step_of(each)) for each in log_spaced(steps))
