"""What is shown: one frozen value, and the session, which alone changes it and tells its followers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Self

from engine.values.heads import MATRICES, NOTHING_OFF, Head, Off
from engine.values.views import OVERVIEW

if TYPE_CHECKING:
    from tui.drawing.levels import Scale


MOST_PINS = 7
"""Heads that can be pinned: with the selected one, there is a sign and a colour for each."""

ALL_ON = "all heads are on"


class _Cycle(Enum):
    @property
    def next(self) -> Self:
        """The next member; after the last one, the first."""
        every = list(type(self))
        return every[(every.index(self) + 1) % len(every)]


class Averaging(_Cycle):
    """What the map on screen is the mean of."""

    NOTHING = "head"
    HEADS = "mean over heads"
    LAYERS = "mean over layers"
    BOTH = "mean over heads and layers"
    ROLLOUT = "rollout"


class Side(_Cycle):
    """What of the pinned heads is compared."""

    SPECTRA = "spectra"
    MAPS = "maps"
    DIFFERENCE = "difference"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a person has chosen to see of the open model.

    Attributes
    ----------
    selected : a head or a layer; None is the model as a whole.
    view : the name of the active view.
    text : the sentence; None before one is read.
    waiting_text : the sentence to be read once the first head is on screen; None for none.
    measure : the measure of singular values in the ranks and the tree.
    mapped : the matrix whose `measure` the overview shows, such as ``qk``, or a measure of patterns or circuits.
    epsilon : of the energy rank.
    pins : the pinned heads, in the order in which they were pinned.
    side : what of them is compared.
    off : the heads that are switched off while the model reads sentences.
    distance : by how many tokens the key is before the query in QK; None leaves positions out.
    averaging : what the map is the mean of.
    difference : whether maps are differences, from another model's or from those with all heads on.
    cell : the query and the key under the map's cursor, from zero.
    spectra_scale : of spectra.
    map_scale : of maps; None is the usual scale for the number of tokens.
    is_numbered : whether the cells of maps have their weights written in them.
    position : the token after which the model predicts; None is the last one.
    token : the token whose logit is measured; None is the model's first choice.
    against : the token whose logit is subtracted; None for none.
    folds : whether the gains of norms are folded into directions.
    searched : the last search in the tree; empty before that.
    """

    selected: Head | None = None
    view: str = OVERVIEW
    text: str | None = None
    waiting_text: str | None = None
    measure: str = "stable_rank"
    mapped: str = "qk"
    epsilon: float = 0.01
    pins: tuple[Head, ...] = ()
    side: Side = Side.SPECTRA
    off: Off = NOTHING_OFF
    distance: int | None = None
    averaging: Averaging = Averaging.NOTHING
    difference: bool = False
    cell: tuple[int, int] = (0, 0)
    spectra_scale: Literal["linear", "log"] = "log"
    map_scale: Scale | None = None
    is_numbered: bool = False
    position: int | None = None
    token: str | None = None
    against: str | None = None
    folds: bool = False
    searched: str = ""

    @property
    def sentence(self) -> str | None:
        """The sentence that waits to be read, else the one that is shown."""
        return self.text if self.waiting_text is None else self.waiting_text

    @property
    def overview(self) -> str:
        """The measure in the overview, a column of the table of heads."""
        return f"{self.mapped}_{self.measure}" if self.mapped.upper() in MATRICES else self.mapped

    @property
    def off_in_maps(self) -> Off:
        """The heads that are off, for keys of maps: with none off, `by_mean` makes no difference."""
        return self.off if self.off.heads else NOTHING_OFF

    @property
    def compared(self) -> tuple[Head, ...]:
        """The heads to compare: the pinned ones, then the selected one unless it is pinned."""
        selected = self.selected
        if selected is None or selected.is_layer or selected in self.pins:
            return self.pins
        return (*self.pins, selected)

    @property
    def compared_pair(self) -> tuple[Head, Head] | None:
        """The two heads of a difference of maps; the first one pinned comes first and is subtracted.

        The other is the selected head, or the last one pinned if the selected head is the first itself.
        """
        heads = self.compared
        if not self.pins or len(heads) < 2:
            return None
        return heads[0], self.selected if self.selected is not None and self.selected in heads[1:] else heads[-1]


Follower = Callable[[frozenset[str]], None]
"""Called with the names of the fields that have changed."""


class Session:
    """Holds what is shown; only `change` changes it.

    Examples
    --------
    >>> session = Session()
    >>> session.follow(lambda changed: print(sorted(changed)))
    >>> session.change(distance=3, folds=False)
    ['distance']
    True
    """

    def __init__(self, shown: Shown | None = None) -> None:
        self.shown = shown or Shown()
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Call a follower after each change, in the order in which followers were added."""
        self._followers.append(follower)

    def measure_token(self, token: str, **fields: Any) -> None:
        """Measure the logit of a token; a difference from that same token ends."""
        against = None if self.shown.against == token else self.shown.against
        self.change(token=token, against=against, **fields)

    def toggle_pin(self, head: Head | None, key: str) -> str:
        """Pin or unpin a head; give the message why that is impossible, or an empty text.

        Examples
        --------
        >>> session = Session()
        >>> session.toggle_pin(Head("decoder", 0, 1), "P"), [str(head) for head in session.shown.pins]
        ('', ['L0H1'])
        >>> session.toggle_pin(Head("decoder", 0), "P")
        'L0 is a layer, and only heads can be pinned; choose one of its heads, then press P'
        """
        pins = self.shown.pins
        if head is None:
            return f"only heads can be pinned; choose one in the tree, then press {key}"
        if head.is_layer:
            return f"{head} is a layer, and only heads can be pinned; choose one of its heads, then press {key}"
        if head not in pins and len(pins) == MOST_PINS:
            pinned = ", ".join(map(str, pins))
            return f"{MOST_PINS} heads are pinned, which is the limit; unpin one with {key}: {pinned}"
        self.change(pins=tuple(each for each in pins if each != head) if head in pins else (*pins, head))
        return ""

    def switch_off(self, off: Off, *, is_comparing: bool) -> None:
        """Change which heads are off; with none off, only a second model leaves a difference of maps."""
        self.change(off=off, difference=self.shown.difference and (bool(off.heads) or is_comparing))

    def change(self, **fields: Any) -> bool:
        """Change fields of `Shown` and tell the followers once; False if nothing has changed."""
        before, self.shown = self.shown, replace(self.shown, **fields)
        changed = frozenset(name for name in fields if getattr(before, name) != getattr(self.shown, name))
        for follower in self._followers if changed else ():
            follower(changed)
        return bool(changed)


def how_to_pin(pin: str, compare: str) -> str:
    """Say how to pin heads, with the keys for it."""
    return f"nothing is pinned; {pin} pins the selected head, {compare} compares pinned heads"


def switch_heads(off: Off, heads: Sequence[Head], *, is_off: bool) -> Off:
    """Switch heads off, after those that are off already, or on.

    Examples
    --------
    >>> one, two = Head("decoder", 0, 1), Head("decoder", 1, 0)
    >>> [str(each) for each in switch_heads(Off((one,)), [two], is_off=True).heads]
    ['L0H1', 'L1H0']
    """
    others = tuple(each for each in off.heads if each not in heads)
    return replace(off, heads=(*others, *heads) if is_off else others)


def say_off(off: Off, stacks: Sequence[str], all_on: str) -> str:
    """Name the heads that are off, and the key that switches all on."""
    return f"{off.text(stacks)}; {all_on} switches all on" if off.heads else ALL_ON
