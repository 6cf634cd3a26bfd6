"""Models that can be opened, as they are known without their weights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Origin(Enum):
    """Where a model was found, in the order of the list."""

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
    size : on disk, in bytes; 0 if unknown.
    model_type : as in ``config.json``; empty if unknown.
    layers, heads : of its first stack; 0 if unknown.
    missing : why it cannot be opened as it is; empty if it can.
    """

    name: str
    origin: Origin
    size: int = 0
    model_type: str = ""
    layers: int = 0
    heads: int = 0
    missing: str = ""


GONE = "it is gone"
"""Why a model whose folder was removed cannot be opened."""
