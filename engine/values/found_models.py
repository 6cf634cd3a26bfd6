"""Models that a person may open: what is known of each without reading its weights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Origin(Enum):
    """Where a model was found, in the order in which they are listed."""

    MEMORY = "in memory"
    DEMO = "demo"
    RECENT = "recent"
    HUB = "Hub cache"


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that can be opened by its name.

    Attributes
    ----------
    name : a Hub id, the full path of a folder or file, or ``demo``.
    origin : where it was found.
    size : on disk, in bytes; 0 where that is not known.
    last_used : seconds since 1970; 0 where that is not known.
    model_type : as in ``config.json``; empty where that is not known.
    layers, heads : of its first stack; 0 where they are not known.
    missing : what keeps it from being opened as it is; empty where nothing does.
    """

    name: str
    origin: Origin
    size: int = 0
    last_used: float = 0.0
    model_type: str = ""
    layers: int = 0
    heads: int = 0
    missing: str = ""


GONE = "it is gone"
"""What keeps a model from being opened of which the folder is no longer there."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a path that is being typed leads to.

    Attributes
    ----------
    text : the path as typed.
    kind : ``folder``, ``file``, or empty where there is nothing.
    completions : the paths that it may become, as they would be typed; folders end in a slash.
    model : the folder to open in the place of a file of weights in it; empty where that is not how the file is opened.
    is_empty : whether it is a folder that holds no model, or a file that is none by itself.
    """

    text: str
    kind: str
    completions: tuple[str, ...]
    model: str = ""
    is_empty: bool = False
