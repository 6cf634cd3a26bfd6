"""Names of heads and of their matrices, and which heads are off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.values.display_text import quantity
from engine.values.errors import EngineError

MATRICES = ("Q", "K", "V", "O", "QK", "OV")
"""The four projections of a head and the two circuits they form, in the order of every table."""

DELTA = "-delta"
"""The end of the name of a stack that holds an adapter's changes."""

SHORT_LABELS = {"previous": "prev", "first": "1st", "duplicate": "dup", "induction": "ind"}
"""Labels of heads as the narrow tree writes them."""

_PLAIN_STACKS = ("encoder", "decoder", "cross")

STACKS = (*_PLAIN_STACKS, *(f"{stack}{DELTA}" for stack in _PLAIN_STACKS))
"""A model's stacks in reading order; ``cross`` has the decoder's queries and the encoder's keys."""

_SPACED_STACK = re.compile(rf"\b({'|'.join(STACKS)})\s+(?=[LH]?\d)", re.IGNORECASE)
_OF_LAYER = re.compile(r"h(\d+)", re.IGNORECASE)
_HEAD_PATTERN = re.compile(
    rf"(?:(?P<stack>[a-z]+(?:-[a-z]+)?)[.:]|(?P<spaced>{'|'.join(STACKS)})\s+)?"
    r"L?(?P<layer>\d+)(?:(?:H|\.)(?P<head>\d+|all))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, order=True, slots=True)
class Head:
    """The name of one head, or of a whole layer.

    Attributes
    ----------
    stack : ``encoder``, ``decoder`` or ``cross``.
    layer : from zero.
    head : from zero; ``-1`` stands for the whole layer, which sorts first.
    """

    stack: str
    layer: int
    head: int = -1

    @property
    def is_layer(self) -> bool:
        """Whether this names a whole layer."""
        return self.head < 0

    @property
    def label(self) -> str:
        """The cell of the ``head`` column: the number, or ``all``."""
        return "all" if self.is_layer else str(self.head)

    @property
    def whole_layer(self) -> Head:
        """The name of the layer this head is in."""
        return Head(self.stack, self.layer)

    def __str__(self) -> str:
        """Name the head as people write it: ``L5H1``, or ``L5`` for a whole layer."""
        return f"L{self.layer}" if self.is_layer else f"L{self.layer}H{self.head}"


def head_text(head: Head, stacks: Sequence[str]) -> str:
    """Name a head or layer, with its stack if the model has several: ``cross L5H1``."""
    return f"{head.stack} {head}" if len(stacks) > 1 else str(head)


def head_argument(head: Head, stacks: Sequence[str]) -> str:
    """Name a head or layer likewise, but as one word, as `parse_head` reads it: ``cross.L5H1``."""
    return f"{head.stack}.{head}" if len(stacks) > 1 else str(head)


def join_stacks(text: str) -> str:
    """Join stacks to the heads after them, as `parse_head` reads them.

    Examples
    --------
    >>> join_stacks("cross L5H1, encoder 2.0 L3")
    'cross.L5H1, encoder.2.0 L3'
    """
    return _SPACED_STACK.sub(r"\1.", text)


def parse_head(text: str, stacks: tuple[str, ...], here: Head | None = None) -> Head:
    """Read ``L5H1``, ``5.1``, ``L5`` or ``encoder.L5H1``, also with a blank; beside a head, ``H1`` of its layer.

    Raises `EngineError` if the text is none of these.

    Examples
    --------
    >>> str(parse_head("5.1", ("decoder",)))
    'L5H1'
    >>> parse_head("5.1", ("decoder", "decoder-delta")).stack
    'decoder'
    """
    if here is not None and (of_layer := _OF_LAYER.fullmatch(text)) is not None:
        return Head(here.stack, here.layer, int(of_layer[1]))
    match = _HEAD_PATTERN.fullmatch(text.strip())
    if match is None:
        raise EngineError(f"'{text}' is not a head; write it as L5H1 or 5.1 (layer 5, head 1, counted from 0)")
    plain = [each for each in stacks if not each.endswith(DELTA)] or stacks
    stack = (match["stack"] or match["spaced"] or (here.stack if here else plain[0] if len(plain) == 1 else "")).lower()
    if not stack:
        raise EngineError(f"'{text}' could be in any of {', '.join(stacks)}; name the stack, as in {stacks[0]}.L0H0")
    if stack not in stacks:
        raise EngineError(f"there is no stack '{stack}'; choose from {', '.join(stacks)}")
    head = match["head"]
    return Head(stack, int(match["layer"]), -1 if head is None or not head.isdigit() else int(head))


def parse_matrix(text: str) -> str:
    """Read the name of one of `MATRICES`, in any case; raise `EngineError` if there is no such matrix."""
    if not isinstance(text, str) or text.upper() not in MATRICES:
        raise EngineError(f"there is no matrix '{text}'; it is one of {', '.join(MATRICES)}")
    return text.upper()


def no_attention(stack: str) -> str:
    """Say that an adapter's changes have no maps, and which stack has."""
    return f"a change of weights has no attention; choose the stack {stack.removesuffix(DELTA)}"


NAMED_HEADS = 4
"""The most heads that are named one by one; of more, the first are named and the rest counted."""


class Label(NamedTuple):
    """The name of a head's clear pattern, and its score, between 0 and 1."""

    name: str
    score: float


@dataclass(frozen=True, slots=True)
class Off:
    """Which heads are off, and what replaces their outputs.

    Attributes
    ----------
    heads : the heads, in any order.
    by_mean : whether a head's output becomes its mean over the sentence's tokens, with all heads on, instead of zero.
    """

    heads: tuple[Head, ...] = ()
    by_mean: bool = False

    def text(self, stacks: Sequence[str]) -> str:
        """Name the heads: ``L0H1, L1H2 off``, or the first of many: ``12 heads off: L0H0, L0H1, L0H2 …``."""
        way = f" by {'its' if len(self.heads) == 1 else 'their'} mean" if self.by_mean else ""
        names = [head_text(each, stacks) for each in self.heads]
        if len(names) > NAMED_HEADS:
            return f"{quantity(len(names), 'head')} off{way}: {', '.join(names[: NAMED_HEADS - 1])} …"
        return f"{', '.join(names)} off{way}" if names else ""


NOTHING_OFF = Off()
