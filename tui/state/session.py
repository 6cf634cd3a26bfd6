"""What is shown now: one frozen value, which one object changes and tells those who draw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.views import OVERVIEW

if TYPE_CHECKING:
    from tui.drawing.levels import Scale


class Averaging(Enum):
    """What is averaged in the map on screen."""

    NOTHING = "head"
    HEADS = "mean over heads"
    LAYERS = "mean over layers"
    BOTH = "mean over heads and layers"
    ROLLOUT = "rollout"

    @property
    def over_layers(self) -> bool:
        """Whether the map is a mean over the stack's layers."""
        return self in (Averaging.LAYERS, Averaging.BOTH, Averaging.ROLLOUT)

    @property
    def next(self) -> Averaging:
        """The one that follows."""
        every = list(Averaging)
        return every[(every.index(self) + 1) % len(every)]


class Side(Enum):
    """What of several heads is beside each other."""

    SPECTRA = "spectra"
    MAPS = "maps"
    DIFFERENCE = "difference"

    @property
    def next(self) -> Side:
        """The one that follows."""
        every = list(Side)
        return every[(every.index(self) + 1) % len(every)]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a person has chosen to see of the open model.

    Attributes
    ----------
    selected : a head or a layer; None is the model as a whole.
    view : the active view.
    text : the sentence, once one is read.
    waiting_text : the sentence that is read once the first head is on screen; None where none waits.
    measure : of singular values, which the ranks and the tree show.
    overview : the column of the table of heads that the overview shows.
    epsilon : of the energy rank.
    pins : the heads to be compared, in the order in which they were pinned.
    side : what of them is compared.
    off : the heads that are switched off while sentences are read.
    distance : by how many tokens the key is before the query in QK; None is without positions.
    averaging : what is averaged in the map.
    difference : whether maps are shown as what they differ in from another model's, or from those with all heads on.
    cell : the query and the key under the map's cursor, from zero.
    spectra_scale : of spectra.
    map_scale : of maps; None is what is usual for as many tokens.
    is_numbered : whether weights are written into the cells of maps.
    position : the token at which is predicted; None is the last one.
    token : whose logit is looked at; None is the model's first choice.
    against : the token whose logit is taken off that; None is none.
    folds : whether the gains of norms are folded into directions.
    searched : what was searched in the tree last; empty before that.
    """

    selected: Head | None = None
    view: str = OVERVIEW
    text: str | None = None
    waiting_text: str | None = None
    measure: str = "stable_rank"
    overview: str = "qk_stable_rank"
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
        """The sentence that is read, or is to be once the first head is on screen."""
        return self.text if self.waiting_text is None else self.waiting_text

    @property
    def off_in_maps(self) -> Off:
        """The heads that are switched off, for maps, of which those with none off are the same in both ways."""
        return self.off if self.off.heads else NOTHING_OFF


Follower = Callable[[frozenset[str]], None]
"""Told which fields have changed."""


class Session:
    """Holds what is shown, and is the only one to change it.

    Attributes
    ----------
    shown : what is shown now.

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
        """Have somebody told of each change, after those who asked before."""
        self._followers.append(follower)

    def change(self, **fields: Any) -> bool:
        """Show something else, and tell once what has changed; False where nothing has."""
        before, self.shown = self.shown, replace(self.shown, **fields)
        changed = frozenset(name for name in fields if getattr(before, name) != getattr(self.shown, name))
        if changed:
            self.tell(changed)
        return bool(changed)

    def tell(self, fields: frozenset[str]) -> None:
        """Have fields drawn as if they had changed."""
        for follower in self._followers:
            follower(fields)
