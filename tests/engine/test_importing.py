"""Libraries are imported by one thread at a time; only where that was asked for the collector is kept out of it."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType

import pytest

from engine.checkpoints.library_imports import Importing


@pytest.fixture
def quiet() -> Iterator[Importing]:
    """Give a context that spares the collector, and leave it as it was."""
    made = Importing()
    made.spares_collector = True
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
