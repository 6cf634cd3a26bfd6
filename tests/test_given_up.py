"""A request that is given up, wherever it is, leaves nothing that later ones take for an answer."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import engine
from engine.service.options import EngineOptions
from engine.service.session import Session
from engine.service.two_models import TwoModels
from engine.service.worked_out import WorkedOut
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.view import Query
from tests.conftest import TinyModel

TEXT, ANOTHER = "The cat sat on the mat.", "A dog ran to the cat."
LAYER = Head("decoder", 0)

QUERIES = {
    "patterns": Query(text=TEXT),
    "heads": Query(text=TEXT, layer=LAYER, parts=("patterns",)),
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


@dataclass
class Patience:
    """What is called between steps, and gives up at one of them.

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


@pytest.fixture
def made(tiny_model: TinyModel) -> Iterator[Callable[[], WorkedOut]]:
    """Give what makes tables of two models, with nothing worked out yet but their weights read."""
    options = EngineOptions(device="cpu", use_cache=False)
    folders = tiny_model("gpt2"), tiny_model("gpt2", initializer_range=0.3)
    one, other = (Session.open(str(folder), options, lambda progress: None) for folder in folders)

    def anew() -> WorkedOut:
        one.forget()
        other.forget()
        one.read(ANOTHER, lambda: None)
        one.sentences.forget(TEXT)
        return WorkedOut(one, TwoModels(one, other))

    yield anew
    one.close()
    other.close()


@pytest.mark.parametrize("name", QUERIES)
def test_a_table_given_up_at_any_step_is_the_same_when_asked_for_again(
    name: str, made: Callable[[], WorkedOut]
) -> None:
    expected = made().table(name, QUERIES[name], lambda: None)
    assert expected.rows
    for steps in itertools.count():  # how many there are differs where other threads are waited for
        tables = made()
        try:
            finished = tables.table(name, QUERIES[name], Patience(steps))
        except Superseded:
            assert tables.table(name, QUERIES[name], lambda: None) == expected, f"given up after {steps} steps"
        else:
            assert finished == expected, f"finished in spite of being given up after {steps} steps"
            break
    assert steps > 1


def test_labels_given_up_at_any_step_leave_the_patterns_as_they_are(made: Callable[[], WorkedOut]) -> None:
    expected = made().table("patterns", Query(layer=LAYER), lambda: None)
    for steps in itertools.count(step=3):
        tables = made()
        try:
            tables.patterns.labels(lambda progress: None, Patience(steps))
        except Superseded:
            again = tables.table("patterns", Query(layer=LAYER), lambda: None)
            assert again == expected, f"given up after {steps} steps"
        else:
            break
    assert steps > 3


def test_a_sweep_that_is_given_up_hands_out_no_layer_that_failed(made: Callable[[], WorkedOut]) -> None:
    session = made().session
    for steps in range(6):
        session.forget()
        groups = []
        with suppress(Superseded):
            for _, _, group, _ in session.sweep(Patience(steps)):
                groups.append(group)
        assert [group for group in groups if isinstance(group, EngineError)] == []


PASSING_ON = ("service/thread.py", "service/writer.py")
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


def breathes(nodes: Sequence[ast.AST]) -> bool:
    """Say whether code names what is called between steps."""
    names = (
        each.id if isinstance(each, ast.Name) else getattr(each, "attr", "")
        for node in nodes
        for each in ast.walk(node)
    )
    return any(name in ("breathe", "_breathe", "pausing", "report") for name in names)


def swallowing(source: str) -> list[int]:
    """Give the lines where code would take a request that is given up for one that failed."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Try) and breathes(node.body) and not guarded(node):
            lines.append(node.lineno)
        if isinstance(node, ast.With) and breathes(node.body):
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
    assert swallowing(f"try:\n    work(breathe)\n{handlers}\n") == lines
