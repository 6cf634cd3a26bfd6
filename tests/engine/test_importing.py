"""Libraries are imported by one thread at a time, and on request so that the event loop is spared."""

from __future__ import annotations

import gc
import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from engine.checkpoints.library_imports import ImportLock
from engine.values.progress import Progress
from tests.opening import run_apart


def test_the_collector_rests_while_modules_load_if_the_event_loop_is_spared_and_then_leaves_them_alone() -> None:
    frozen, importing = gc.get_freeze_count(), ImportLock()
    importing.spares_event_loop = True

    def load() -> None:
        with importing, importing:
            assert not gc.isenabled()
            sys.modules["made_up"] = ModuleType("made_up")
            raise ZeroDivisionError

    with importing:
        pass
    assert gc.get_freeze_count() == frozen, "nothing was imported"
    with pytest.raises(ZeroDivisionError):
        load()
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen
    del sys.modules["made_up"]
    gc.unfreeze()


def test_tables_from_weights_alone_do_without_transformers() -> None:
    code = "import sys, engine; m = engine.open_model('demo'); m.ranks(); m.circuits(); m.composition(); m.heads()"
    assert run_apart(f"{code}; print('torch' in sys.modules, 'transformers' in sys.modules)").split() == [
        "True",
        "False",
    ]


TWO_THREADS = """
import sys, threading
import engine.checkpoints.source, engine.models.tokenizer
import engine.analysis.decompositions, engine.analysis.open_model, engine.analysis.spectra, engine.analysis.tables
from engine.checkpoints.library_imports import IMPORT_LOCK
from engine.checkpoints.locate import find_source
from engine.models.rotations import rotation_of
from engine.values.options import EngineOptions

print("transformers" in sys.modules)
source = find_source("demo", EngineOptions(), lambda progress: None)
outline = source.anatomy.outline

def load():
    with IMPORT_LOCK:
        import transformers
        transformers.LlamaModel

threading.Thread(target=load).start()
print(len(rotation_of(outline, outline.layers[0], source.settings(), source.tensors).frequencies))
"""


def test_the_modules_for_weights_leave_transformers_to_the_lock_and_its_import_to_one_thread() -> None:
    assert run_apart(TWO_THREADS).splitlines() == ["False", "16"]


def test_the_seconds_and_the_end_of_a_long_import_are_reported() -> None:
    importing, told = ImportLock(), list[Progress]()
    importing.tell = told.append
    with importing:
        torch = ModuleType("torch")
        torch.__spec__ = ModuleSpec("torch", None)
        torch.__spec__._initializing = True  # type: ignore[attr-defined]  # as Python has it while a module is run
        before, sys.modules["torch"] = sys.modules.get("torch"), torch
        while not told:
            time.sleep(0.01)
        sys.modules.pop("torch")
        if before is not None:
            sys.modules["torch"] = before
    while len(told) < 2:
        time.sleep(0.01)
    assert told[0] == Progress("importing torch", 1, 0, "seconds")
    assert told[-1].finished
