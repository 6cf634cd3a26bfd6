"""Opening a model as the engine does, in this process or its own, the line that refuses one, and one made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import engine
from engine.analysis import tables
from engine.analysis.open_model import OpenModel
from engine.architectures.heads import read_layer
from engine.architectures.outline import Anatomy
from engine.architectures.tensors import Tensors
from engine.checkpoints.locate import locate
from engine.checkpoints.source import FolderSource
from engine.library import Model
from engine.models.model_loader import load_reader
from engine.models.proof import prove
from engine.models.reader import Reader
from engine.service.engine import Engine
from engine.service.queue import Urgency
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.outline import LayerOutline, LayerProof, ModelOutline
from engine.values.progress import Lane, finish, one_unit
from engine.values.table import Table
from engine.values.views import Query

ROOT = Path(engine.__file__).parents[1]
"""Where the packages are, installed or not."""

PATIENCE = 60.0
"""Seconds after which an answer of an engine is no longer waited for."""


def open_folder(folder: Path) -> tuple[FolderSource, Tensors, Anatomy]:
    """Find a folder's files, read their headers, and take the model apart."""
    source = FolderSource(locate(str(folder)))
    return source, source.tensors, source.anatomy


def open_on_thread(place: Path | str, **options: Any) -> OpenModel:
    """Open a model on this thread; on the CPU and without the cache, unless options say otherwise."""
    return OpenModel.open(str(place), EngineOptions(**{"device": "cpu", "use_cache": False, **options}))


def start_engine(place: Path | str, **options: Any) -> Engine:
    """Start an engine with a model open, as `open_on_thread` opens it; it is stopped when the test ends."""
    started = Engine(EngineOptions(**{"device": "cpu", "use_cache": False, **options}))
    started.open(str(place), lambda progress: None).result(PATIENCE)
    return started


def open_reader(folder: Path, dtype: str = "auto") -> Reader:
    """Load a folder's model, to read sentences with."""
    source = FolderSource(locate(str(folder)))
    reader = load_reader(source, "cpu", dtype)
    assert isinstance(reader, Reader)
    return reader


def prove_layers(folder: Path, reader: Reader | None = None) -> dict[Head, LayerProof]:
    """Check each layer of a folder's model against what the model computes; it may have been loaded before."""
    _, tensors, anatomy = open_folder(folder)
    seen = (reader or open_reader(folder)).observe(no_hurry)
    return {name: prove(module, read_layer(tensors, module), seen[name]) for name, module in anatomy.modules.items()}


def assert_same_heads(folder: Path, expected: Path) -> None:
    """Compare every head of two folders, bit by bit."""
    _, tensors, anatomy = open_folder(folder)
    _, expected_tensors, expected_anatomy = open_folder(expected)
    assert anatomy.modules.keys() == expected_anatomy.modules.keys()
    for layer, module in expected_anatomy.modules.items():
        ours, theirs = read_layer(tensors, anatomy.modules[layer]), read_layer(expected_tensors, module)
        for head in range(module.outline.heads):
            found, arrays = ours.of_head(head), theirs.of_head(head)
            assert found.keys() == arrays.keys()
            assert all(torch.equal(found[name], array) for name, array in arrays.items()), (layer, head)


def refused(work: Callable[[], object]) -> str:
    """Return the line of the error that a call raises."""
    with pytest.raises(EngineError) as caught:
        work()
    return one_line(caught.value)


def refusal(folder: Path) -> str:
    """Return the line with which a folder is refused."""
    return refused(lambda: open_folder(folder))


def not_found(name: str, revision: str | None = None) -> str:
    """Return the line that says why there is no model of a name."""
    return refused(lambda: locate(name, revision))


def one_line(error: EngineError) -> str:
    """Give an error's text, which must be a single line."""
    assert not isinstance(error, Superseded)
    assert "\n" not in str(error)
    return str(error)


def with_config(folder: Path, file: str = "config.json", /, **changes: Any) -> Path:
    """Change a folder's configuration, or another file of settings; None takes a setting away."""
    path = folder / file
    config: dict[str, Any] = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    return folder


@contextmanager
def edited_weights(folder: Path) -> Iterator[dict[str, Tensor]]:
    """Give the tensors of a folder's only weight file, which are written there when they have been edited."""
    file = folder / "model.safetensors"
    tensors: dict[str, Tensor] = load_file(file)
    yield tensors
    save_file({name: each.contiguous() for name, each in tensors.items()}, file, metadata={"format": "pt"})


def run_apart(code: str, *arguments: str | Path, **environment: str) -> str:
    """Run code in a process of its own, which imports everything anew; give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], env=os.environ | environment, cwd=ROOT,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def no_hurry() -> None:
    """Let nothing come between the steps of what the engine does."""


def worked_out(model: OpenModel, name: str, query: Query | None = None) -> Table:
    return finish(tables.table(model, name, query or Query()))


def outline(name: str) -> ModelOutline:
    """Make up what is known of a model."""
    layer = LayerOutline("decoder", 0, 4, 4, 8, 8, 8, 8, 2, 2, "")
    return ModelOutline(name, name, "gpt2", (layer,), "float32", 1, 4, None)


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Give the rows that the library returns, each by the names of its columns."""
    rows: list[dict[str, Any]] = table.rows(named=True)
    return rows


VERIFIED = {"output": {"verified"}, "scores": {"verified"}}
"""What a check finds of a model whose heads are all proven."""


def verdicts_of(model: Model) -> dict[str, set[str]]:
    """Give by identity what a check finds of a model's layers."""
    found: dict[str, set[str]] = {}
    for row in rows_of(model.check()):
        found.setdefault(row["identity"], set()).add(row["verdict"])
    return found


def hold_up(engine: Engine, free: threading.Event) -> None:
    """Have an engine do nothing on any lane until an event is set."""
    for lane in Lane:
        engine._queue.submit(lambda: one_unit(lambda: free.wait(600)), Urgency.SELECTED, lane)
