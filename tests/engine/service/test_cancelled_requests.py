"""A request that is given up, wherever it is, leaves nothing that later ones take for an answer."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

import engine
from engine.analysis import tables
from engine.analysis.open_model import OpenModel
from engine.analysis.patterns import labels
from engine.values.errors import EngineError, Interrupted, Superseded
from engine.values.heads import Head
from engine.values.progress import Work, finish
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
"""Tables that are made in many steps, or keep something from one request for the next."""


Part = TypeVar("Part")


@dataclass
class Patience:
    """What is called between units and within them, and gives up at one of these steps.

    Attributes
    ----------
    steps : after how many it gives up.
    taken : how many there have been.
    """

    steps: int
    taken: int = 0

    def __call__(self) -> None:
        """Take a step, or give up."""
        self.taken += 1
        if self.taken > self.steps:
            raise Superseded("replaced by a newer request")

    def do(self, model: OpenModel, begin: Callable[[], Work[Part]]) -> Part:
        """Do work on a model as its queue does, and give it up in time."""
        other = finish(model.other())
        model.check = other.check = self
        work = begin()
        try:
            while True:
                self()
                next(work)
        except StopIteration as ended:
            answer: Part = ended.value
            return answer
        finally:
            work.close()
            model.check = other.check = lambda: None


@pytest.fixture
def made(tiny_model: TinyModel) -> Iterator[Callable[[], OpenModel]]:
    """Give what opens two models, one beside the other, with another sentence read last."""
    one, other = open_on_thread(tiny_model("gpt2")), open_on_thread(tiny_model("gpt2", initializer_range=0.3))
    one.compare_with(other)

    def anew() -> OpenModel:
        one.forget()
        other.forget()
        finish(one.read(ANOTHER))
        finish(one.forget_sentence(TEXT))
        return one

    yield anew
    one.close()


def is_same(one: Table, other: Table) -> bool:
    """Say whether two tables have the same columns, rows and notes."""
    is_same = one.frame.equals(other.frame) and one.columns == other.columns
    return is_same and (one.left_out, one.lacking) == (other.left_out, other.lacking)


@pytest.mark.parametrize("name", QUERIES)
def test_a_table_given_up_at_any_step_is_the_same_when_asked_for_again(
    name: str, made: Callable[[], OpenModel]
) -> None:
    query = QUERIES[name]
    expected = worked_out(made(), name, query)
    assert expected.rows
    for steps in itertools.count():
        model = made()
        try:
            finished = Patience(steps).do(model, partial(tables.table, model, name, query))
        except Superseded:
            assert is_same(worked_out(model, name, query), expected), f"given up after {steps} steps"
        else:
            assert is_same(finished, expected), f"finished in spite of being given up after {steps} steps"
            break
    assert steps > 1


def test_labels_given_up_at_any_step_leave_the_patterns_as_they_are(made: Callable[[], OpenModel]) -> None:
    expected = worked_out(made(), "patterns", Query(layer=LAYER))
    for steps in itertools.count(step=3):
        model = made()
        try:
            Patience(steps).do(model, lambda: labels(model, lambda progress: None))  # noqa: B023
        except Superseded:
            again = worked_out(model, "patterns", Query(layer=LAYER))
            assert is_same(again, expected), f"given up after {steps} steps"
        else:
            break
    assert steps > 3


def test_labels_that_are_interrupted_go_on_with_what_they_have_measured(made: Callable[[], OpenModel]) -> None:
    model = made()
    expected = finish(labels(model, lambda progress: None))
    model = made()
    interruptions = iter(range(5))

    def interrupt() -> None:
        if next(interruptions, None) is not None:
            raise Interrupted("something more urgent waits")

    model.check = interrupt
    assert finish(labels(model, lambda progress: None)) == expected
    assert next(interruptions, None) is None


def test_a_sweep_that_is_given_up_hands_out_no_layer_that_failed(made: Callable[[], OpenModel]) -> None:
    model = made()
    for steps in range(6):
        model.forget()
        groups: list[object] = []
        with suppress(Superseded):
            Patience(steps).do(model, lambda: model.spectra.sweep(lambda *step: groups.append(step[2])))  # noqa: B023
        assert [group for group in groups if isinstance(group, EngineError)] == []


PASSING_ON = ("service/queue.py",)
"""What hands whatever work raises to whoever waits for its answer."""


def guarded(node: ast.Try) -> bool:
    """Say whether what is given up passes through: every handler that would catch it raises it as it is."""
    for handler in node.handlers:
        caught = {each.id for each in ast.walk(handler.type or ast.Name("BaseException")) if isinstance(each, ast.Name)}
        if caught & {"Superseded", "EngineError", "Exception", "BaseException"}:
            last = handler.body[-1]
            is_passed_on = isinstance(last, ast.Raise) and last.exc is None
            if not is_passed_on or "Superseded" in caught:
                return is_passed_on
    return True


def checks(nodes: Sequence[ast.AST]) -> bool:
    """Say whether code does work in units, or names what is called between steps."""
    parts = [each for node in nodes for each in ast.walk(node)]
    names = (each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in parts)
    return any(isinstance(each, ast.YieldFrom) for each in parts) or any(
        name.strip("_") in ("check", "report") for name in names
    )


def swallowing(source: str) -> list[int]:
    """Give the lines where code would take a request that is given up for one that failed."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Try) and checks(node.body) and not guarded(node):
            lines.append(node.lineno)
        if isinstance(node, ast.With) and checks(node.body):
            for item in node.items:
                names = {each.id for each in ast.walk(item.context_expr) if isinstance(each, ast.Name)}
                if "suppress" in names and names & {"EngineError", "Exception", "BaseException"}:
                    lines.append(node.lineno)
    return lines


def test_nothing_in_the_engine_takes_what_is_given_up_for_a_failure() -> None:
    root = Path(engine.__file__).parent
    found = {
        str(file.relative_to(root)): lines
        for file in root.rglob("*.py")
        if (lines := swallowing(file.read_text(encoding="utf-8")))
    }
    assert {name: lines for name, lines in found.items() if name not in PASSING_ON} == {}
    assert found.keys() == set(PASSING_ON)


@pytest.mark.parametrize(
    ("handlers", "lines"),
    [
        ("except EngineError as error:\n    kept = error", [1]),
        ("except (EngineError, OSError) as error:\n    raise ValueError from error", [1]),
        ("except Superseded:\n    raise\nexcept EngineError as error:\n    kept = error", []),
        ("except Superseded as error:\n    kept = error", [1]),
        ("except ValueError:\n    pass", []),
        ("except BaseException:\n    forget()\n    raise", []),
    ],
)
def test_what_would_keep_it_is_seen(handlers: str, lines: list[int]) -> None:
    assert swallowing(f"try:\n    work(check)\n{handlers}\n") == lines
