"""A request that is given up half way changes no later answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from engine.analysis import tables
from engine.analysis.open_model import OpenModel
from engine.analysis.patterns import labels
from engine.values.errors import Superseded
from engine.values.heads import Head
from engine.values.progress import Work, finish, tell_nobody
from engine.values.table import Table
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.opening import open_on_thread, worked_out

TEXT, ANOTHER = "The cat sat on the mat.", "A dog ran to the cat."
LAYER = Head("decoder", 0)

QUERIES = {
    "patterns": Query(text=TEXT),
    "heads": Query(layer=LAYER, parts=("ranks",)),
    "ablation": Query(text=TEXT, by_mean=True),
    "rollout": Query(text=TEXT),
    "lens": Query(text=TEXT),
    "contributions": Query(text=TEXT),
    "explain": Query(text=TEXT, layer=LAYER, head=0),
    "composition": Query(),
    "circuits": Query(layer=LAYER, head=0),
    "changes": Query(layer=LAYER, head=0),
}
"""Tables that take many steps, or keep something for the next request."""


@dataclass
class Patience:
    """A check, called between units and within them, that gives up after some steps."""

    steps: int
    taken: int = 0

    def __call__(self) -> None:
        self.taken += 1
        if self.taken > self.steps:
            raise Superseded("replaced by a newer request")

    def do(self, model: OpenModel, work: Work[Any]) -> Any:
        """Do work on a model, one step for each unit."""
        other = finish(model.other())
        model.check = other.check = self
        try:
            while True:
                self()
                next(work)
        except StopIteration as ended:
            return ended.value
        finally:
            work.close()
            model.check = other.check = lambda: None


@pytest.fixture
def made(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], OpenModel]]:
    """Return a function that makes a model, beside a second one, forget all but another sentence."""
    monkeypatch.setattr("engine.analysis.patterns.DISTANCES", (3, 5))
    one, other = open_on_thread(tiny_model("gpt2")), open_on_thread(tiny_model("gpt2", initializer_range=0.3))
    one.compare_with(other)

    def anew() -> OpenModel:
        one.forget()
        other.forget()
        finish(one.read(ANOTHER))
        return one

    yield anew
    one.close()


def is_same(one: Table, other: Table) -> bool:
    facts, expected = ((each.columns, each.left_out, each.lacking) for each in (one, other))
    return one.frame.equals(other.frame) and facts == expected


@pytest.mark.parametrize("name", [*QUERIES, "labels"])
def test_what_is_given_up_half_way_leaves_the_table_as_it_is(name: str, made: Callable[[], OpenModel]) -> None:
    is_table = name in QUERIES
    table, query = (name, QUERIES[name]) if is_table else ("patterns", Query(layer=LAYER))
    expected = worked_out(made(), table, query)
    assert expected.rows
    is_finished, steps = False, 0
    while not is_finished:
        model = made()
        work: Work[Any] = tables.table(model, name, query) if is_table else labels(model, tell_nobody)
        try:
            finished = Patience(steps).do(model, work)
        except Superseded:
            assert is_same(worked_out(model, table, query), expected), f"given up after {steps} steps"
            steps += 1 + steps // 3
        else:
            assert not is_table or is_same(finished, expected), f"finished in spite of {steps} steps"
            is_finished = True
    assert steps > 1
