"""What is shown: one frozen value, and the session, which alone changes it and tells its followers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Self

from engine.values.heads import MATRICES, NOTHING_OFF, Head, Off
from engine.values.views import OVERVIEW

if TYPE_CHECKING:
    from tui.drawing.levels import Scale


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

    def change(self, **fields: Any) -> bool:
        """Change fields of `Shown` and tell the followers once; False if nothing has changed."""
        before, self.shown = self.shown, replace(self.shown, **fields)
        changed = frozenset(name for name in fields if getattr(before, name) != getattr(self.shown, name))
        for follower in self._followers if changed else ():
            follower(changed)
        return bool(changed)
