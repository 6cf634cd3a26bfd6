"""Libraries are imported by one thread at a time; the event loop is spared where that was asked for."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from engine.checkpoints.library_imports import Importing
from engine.values.progress import Progress


@pytest.fixture
def quiet() -> Iterator[Importing]:
    """Give a context that spares the event loop, and leave the collector as it was."""
    made = Importing()
    made.spares_event_loop = True
    yield made
    sys.modules.pop("made_up", None)
    gc.unfreeze()


def test_nothing_is_done_to_the_collector_unless_it_is_asked_for() -> None:
    frozen, importing = gc.get_freeze_count(), Importing()
    with importing:
        assert gc.isenabled()
        sys.modules["made_up"] = ModuleType("made_up")
    del sys.modules["made_up"]
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_the_collector_rests_while_modules_load_and_then_leaves_them_alone(quiet: Importing) -> None:
    frozen = gc.get_freeze_count()
    with quiet, quiet:
        assert not gc.isenabled()
        sys.modules["made_up"] = ModuleType("made_up")
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


def test_where_nothing_was_imported_the_collector_forgets_nothing(quiet: Importing) -> None:
    frozen = gc.get_freeze_count()
    with quiet:
        pass
    assert gc.get_freeze_count() == frozen


def test_the_collector_works_again_after_a_failure(quiet: Importing) -> None:
    with pytest.raises(ZeroDivisionError), quiet:
        raise ZeroDivisionError
    assert gc.isenabled()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists what a process has mapped")
@pytest.mark.parametrize("is_asked_for", [False, True])
def test_torch_is_mapped_before_it_is_imported_only_where_that_is_asked_for(is_asked_for: bool) -> None:
    code = (
        "import sys; from pathlib import Path; from engine.checkpoints.library_imports import Importing\n"
        f"importing = Importing(); importing.spares_event_loop = {is_asked_for}\n"
        "with importing:\n"
        "    print('torch' in sys.modules, 'libtorch_cpu' in Path('/proc/self/maps').read_text())\n"
        "    import torch\n"
        "print(torch.linalg.svdvals(torch.diag(torch.tensor([3.0, 2.0]))).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"False {is_asked_for}", "[3.0, 2.0]"]


def test_one_thread_imports_at_a_time() -> None:
    importing, inside = Importing(), list[str]()

    def other() -> None:
        with importing:
            inside.append("other")

    thread = threading.Thread(target=other)
    with importing:
        thread.start()
        time.sleep(0.02)
        inside.append("first")
    thread.join(10)
    assert inside == ["first", "other"]


ON_THE_ENGINE_THREAD = (
    "engine.checkpoints.locate",
    "engine.checkpoints.source",
    "engine.models.rotations",
    "engine.models.tokenizer",
    "engine.analysis.open_model",
    "engine.analysis.spectra",
    "engine.analysis.decompositions",
    "engine.analysis.tables",
)


def test_what_the_engine_imports_for_weights_leaves_transformers_to_the_lock() -> None:
    code = f"import sys, {', '.join(ON_THE_ENGINE_THREAD)}; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_while_one_thread_imports_it_another_one_waits_and_has_it_whole() -> None:
    code = (
        "import threading\n"
        "from engine.checkpoints.library_imports import IMPORTING\n"
        "from engine.models.rotations import rotation_of\n"
        "from engine.checkpoints.locate import find_source\n"
        "from engine.values.options import EngineOptions\n"
        "source = find_source('demo', EngineOptions(), lambda progress: None)\n"
        "outline = source.anatomy.outline\n"
        "def load():\n"
        "    with IMPORTING:\n"
        "        import transformers\n"
        "        transformers.LlamaModel\n"
        "thread = threading.Thread(target=load)\n"
        "thread.start()\n"
        "print(len(rotation_of(outline, outline.layers[0], source.settings(), source.tensors).frequencies))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "16\n", done.stderr


def test_the_seconds_of_a_long_import_are_told_and_that_it_has_ended() -> None:
    importing, told = Importing(), list[Progress]()
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
