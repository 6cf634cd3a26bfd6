"""What is meant by a text that is typed on the opening screen: a model that is listed, or the text itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum

from engine.values.found_models import Place

HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
"""What can be the id of a model on the Hub."""

SHORTEST = 4
"""Characters of the shortest ids without an organisation, such as ``gpt2``."""


class Closeness(IntEnum):
    """Where a text is in a model's name; the lower, the more likely that the model is meant."""

    LAST = 0
    """It is all that stands behind the slash."""
    BEGINNING = 1
    """The name begins with it, or what stands behind the slash does."""
    WORD = 2
    """A word in the name begins with it."""
    WITHIN = 3
    """It is elsewhere in the name, or not in the name at all but in the type."""


def closeness(text: str, name: str) -> Closeness:
    """Say where a text is in a name.

    Examples
    --------
    >>> [closeness("gpt2", each).name for each in ("openai/gpt2", "gpt2-medium", "tiny-gpt2", "distilgpt2")]
    ['LAST', 'BEGINNING', 'WORD', 'WITHIN']
    """
    text, name = text.casefold(), name.casefold()
    last = name.rpartition("/")[2]
    if last == text:
        return Closeness.LAST
    if name.startswith(text) or last.startswith(text):
        return Closeness.BEGINNING
    return Closeness.WORD if re.search(rf"(?<![^\W_]){re.escape(text)}", name) else Closeness.WITHIN


def can_be_a_name(text: str, place: Place | None) -> bool:
    """Say whether a text can be opened as it is: a Hub id or a path, as far as is known.

    Parameters
    ----------
    text : what is typed.
    place : what is there where it is taken for a path; None until that is known.

    Examples
    --------
    >>> can_be_a_name("gpt2", None), can_be_a_name("~/models/mine", None), can_be_a_name("tiny gpt", None)
    (True, True, False)
    """
    if HUB_ID.fullmatch(text) and not text.startswith("."):
        return True
    if place is not None:
        return bool(place.kind)
    return "/" in text or text.startswith((".", "~"))


def meant(text: str, names: Sequence[str], place: Place | None) -> str | None:
    """Give the name that is meant of those in which a text was found; None where it is the text itself.

    A name that is typed in full is meant. So is a text with a slash, whatever else it is found in: whoever types the
    organisation, or a path, means this one. A word is what names are searched by, unless no word of any begins with it
    and it is long enough for an id.

    Parameters
    ----------
    text : what is typed.
    names : in the order in which they are listed.
    place : what is there where the text is taken for a path; None until that is known.

    Examples
    --------
    >>> names = ("gpt2-medium", "distilgpt2", "openai/gpt2")
    >>> meant("med", names, None), meant("gpt2", names, None), meant("openai/gpt2-xl", names, None)
    ('gpt2-medium', 'openai/gpt2', None)
    >>> meant("gpt2", ("distilgpt2",), None), meant("t2", ("distilgpt2",), None)
    (None, 'distilgpt2')
    """
    if not text:
        return next(iter(names), None)
    for exact in (text.__eq__, lambda name: name.casefold() == text.casefold()):
        if (found := next(filter(exact, names), None)) is not None:
            return found
    is_name = can_be_a_name(text, place)
    if not names or (is_name and ("/" in text or text.startswith((".", "~")))):
        return None
    best = min(names, key=lambda name: closeness(text, name))
    is_id = is_name and len(text) >= SHORTEST
    return None if is_id and closeness(text, best) is Closeness.WITHIN else best
