"""A model that is loaded, with what makes token ids of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.models.tokenizer import Words


@dataclass(frozen=True)
class Loaded:
    """A model that can read sentences.

    Attributes
    ----------
    model : the module itself, in the state in which it computes and not learns.
    words : what makes ids of text.
    device : where it is.
    is_borrowed : whether it belongs to somebody else, who finds it afterwards as it was.
    """

    model: Any
    words: Words
    device: str
    is_borrowed: bool = False
