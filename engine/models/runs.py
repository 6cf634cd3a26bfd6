"""How far a model is that runs for a table, once or several times: each time that a layer runs is a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from engine.models.telling import Tell, Telling, nobody
from engine.values.heads import Head
from engine.values.progress import Progress

PREDICTING = "predicting"
FOLLOWING = "following the residual stream"
TAKING_APART = "taking the logit apart"
SWITCHING = "switching heads off"
AVERAGING = "averaging what heads give"
"""What a model runs for."""

TOKENS_AT_ONCE = 2048
"""Tokens that the model reads at a time while heads are switched off one by one, copies of the sentence together."""


class Runs:
    """Counts the layers that a model runs for one answer.

    Parameters
    ----------
    tell : gets the reports.
    activity : as `Progress` has it.
    layers : that the model runs each time.
    runs : how often; where it is 0, nothing is told.
    """

    def __init__(self, tell: Tell, activity: str, layers: int, runs: int) -> None:
        self._telling = Telling(tell, activity, "layers" if runs == 1 else "layers run")
        self._layers, self._runs = layers, runs
        self._finished = self._begun = 0

    @contextmanager
    def one(self) -> Iterator[Callable[[], None]]:
        """Run the model once, calling what is given before each layer; a run that fails is counted anew."""
        self._begun = 0
        yield self._step
        self._finished += 1

    def _step(self) -> None:
        """Count a layer that begins: those before it are done."""
        before = self._finished * self._layers
        self._telling(before + min(self._begun, self._layers), self._runs * self._layers)
        self._begun += 1

    def end(self) -> None:
        """Say that no more is to come."""
        self._telling.end()


UNTOLD = Runs(nobody, "", 0, 0)
"""Of runs that nobody is told of."""


def in_heads(tell: Tell, heads: int, done: Callable[[], int], layers: int) -> Tell:
    """Tell of heads that are tried some at a time: how many have been, and how far the run is that tries the next.

    Parameters
    ----------
    tell : gets the reports.
    heads : that are tried in all.
    done : gives how many have been.
    layers : that the model runs each time.
    """

    def telling(progress: Progress) -> None:
        rate = None if progress.rate is None else progress.rate * heads / progress.total
        note = "" if progress.finished else f"layer {progress.done % layers + 1} of {layers}"
        count = heads if progress.finished else done()
        tell(replace(progress, done=count, total=heads, unit="heads", rate=rate, note=note))

    return telling


def together(heads: Sequence[Head], tokens: int) -> Iterator[list[Head]]:
    """Part heads into those that are switched off in one run, each in a copy of a sentence of so many tokens."""
    left = list(heads)
    while left:
        count = min(max(1, TOKENS_AT_ONCE // tokens), len(left))
        if count == tokens > 1:
            count -= 1  # else it could not be told which of two dimensions has the sentences
        some, left = left[:count], left[count:]
        yield some
