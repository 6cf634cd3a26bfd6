"""Torch's library is mapped without torch being imported, and the import that follows works."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import ModuleType

import pytest

from engine.service import loading
from engine.service.loading import Beside, collector_at_rest, preload_torch
from engine.values.errors import Superseded
from engine.values.spectra import SpectraGroup
from tests.conftest import TinyModel
from tests.opening import no_hurry
from tests.test_large_layers import session

CODE = """
import sys
import threading
from pathlib import Path
from types import ModuleType
from engine.service.loading import preload_torch
thread = preload_torch()
thread.join()
print("torch" in sys.modules, "libtorch_cpu" in Path("/proc/self/maps").read_text())
import torch
print(torch.linalg.svdvals(torch.diag(torch.tensor([3.0, 2.0]))).tolist())
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists what a process has mapped")
def test_the_library_is_mapped_before_torch_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False True", "[3.0, 2.0]"]


def test_without_torch_nothing_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    assert preload_torch() is None


def test_the_collector_rests_while_modules_load_and_then_leaves_them_alone() -> None:
    before = gc.get_freeze_count()
    with collector_at_rest():
        assert not gc.isenabled()
        with collector_at_rest():
            pass
        assert not gc.isenabled()
        sys.modules["loaded"] = ModuleType("loaded")
    del sys.modules["loaded"]
    assert gc.isenabled()
    assert gc.get_freeze_count() > before


def test_the_collector_works_again_after_a_failure() -> None:
    with contextlib.suppress(ZeroDivisionError), collector_at_rest():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_more_urgent_work_is_done_while_something_loads() -> None:
    begun, breaths = threading.Event(), []

    def load() -> None:
        assert begun.wait(10)

    def breathe() -> None:
        breaths.append(threading.current_thread())
        if len(breaths) == 3:
            begun.set()

    Beside(load).wait(breathe)
    assert len(breaths) >= 3
    assert set(breaths) == {threading.current_thread()}


def test_what_cannot_be_loaded_is_told_to_the_one_who_waits() -> None:
    def load() -> None:
        raise ImportError("no such library")

    with pytest.raises(ImportError, match="no such library"):
        Beside(load).wait(lambda: None)


def test_what_is_being_loaded_when_nobody_waits_any_more_is_loaded_once() -> None:
    may_end, loaded = threading.Event(), []

    def load() -> str:
        assert may_end.wait(10)
        loaded.append(1)
        return "the model"

    def give_up() -> None:
        raise Superseded("a newer sentence")

    model = Beside(load)
    with pytest.raises(Superseded):
        model.wait(give_up)
    assert model.wait(may_end.set) == "the model"
    assert model.wait(give_up) == "the model"
    assert len(loaded) == 1


def test_the_collector_forgets_nothing_where_nothing_was_loaded() -> None:
    made: list[object] = [object()]
    with collector_at_rest():
        pass
    assert any(each is made for each in gc.get_objects()), "those that stay for good are not among them"


def test_values_of_many_heads_are_kept_from_the_collector_once_it_has_gone_through_them(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: done.append("collected"))
    monkeypatch.setattr(gc, "freeze", lambda: done.append("kept apart"))
    monkeypatch.setattr(loading, "MANY", 3 * 4 * 6)  # spectra of three layers
    opened = session(tiny_model("llama", num_hidden_layers=7))
    opened.layer_weights(opened.outline.layers[0].name)  # imports what takes the weights apart
    done.clear()
    for number, _ in enumerate(opened.sweep(no_hurry), start=1):
        if number <= 7:
            assert done == ["collected", "kept apart"] * (number // 3)
    monkeypatch.setattr(gc, "isenabled", lambda: False)  # as while the screen scrolls
    opened._kept_apart.add(loading.MANY)
    assert len(done) == 4


def test_what_is_kept_from_the_collector_goes_with_its_model(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "MANY", 1)
    opened = session(tiny_model("llama"))
    groups = [group for _, _, group, _ in opened.sweep(no_hurry) if isinstance(group, SpectraGroup)]
    values = [
        weakref.ref(each.singular_values)
        for group in groups
        for of_head in group.spectra.values()
        for each in of_head.values()
    ]
    assert not any(each is groups[0].spectra[0]["QK"] for each in gc.get_objects()), "the collector has it"
    assert all(each() is not None for each in values)
    opened.close()
    del groups
    assert all(each() is None for each in values)
