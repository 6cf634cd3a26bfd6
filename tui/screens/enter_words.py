"""What Enter and Tab would do on the opening screen with what is chosen or typed there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.values.found_models import GONE, FoundModel, Place
from tui.screens.model_choice import HUB_ID
from tui.screens.model_list import NOT_HERE

OFFLINE = "HF_HUB_OFFLINE keeps"
"""What to blame where nothing is to be downloaded."""

LISTED = 8
"""Completions of a path that are named."""


def enter_does(
    model: FoundModel | None, name: str, place: Place | None, enter: str, tab: str, names: Sequence[str] = ()
) -> str:
    """Say what Enter would do.

    Parameters
    ----------
    model : the one that is chosen in the list; None where that is what is typed itself.
    name : its name, or what is typed.
    place : what is at the path that is typed, once that is known.
    enter, tab : the keys that open and that complete.
    names : of listed models that begin with what is typed.
    """
    if model is None:
        return _with_text(name, place, enter, tab, names)
    if model.missing == NOT_HERE:
        downloads = f", and {OFFLINE} it from being downloaded" if _is_offline() else f": {enter} downloads it"
        return f"{name} is {NOT_HERE}{downloads}"
    if model.missing:
        if model.missing == GONE:
            return f"{name} is no longer there; {enter} looks for it again"
        goes_on = f"{enter} tries it" if name.startswith("/") else f"{enter} downloads what is missing"
        if not name.startswith("/") and _is_offline():
            goes_on = f"{OFFLINE} the rest from being downloaded"
        return f"{name} is not complete: {model.missing}; {goes_on}"
    return f"{enter} opens {name}"


def _is_offline() -> bool:
    """Say whether nothing is to be downloaded."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _with_text(text: str, place: Place | None, enter: str, tab: str, names: Sequence[str]) -> str:
    """Say what Enter would do with what is typed."""
    if place is not None and place.model:
        is_in = "of the model in its folder" if place.kind == "file" else "how the Hub's cache calls a model"
        return f"{text} is {is_in}: {enter} opens {place.model}"
    completions = _listed(place, tab)
    if place is not None and place.is_empty and place.kind == "file":
        return f"{text} is a file; a model is the folder with its config.json, or a .gguf file"
    if place is not None and place.is_empty:
        return f"the folder {text} holds no model" + (f"; {completions}" if completions else "")
    if place is not None and place.kind:
        return f"{enter} opens the {place.kind} {text}"
    if not HUB_ID.fullmatch(text) or text.startswith((".", "~")):
        return completions or f"there is no {text}, and no Hub id is written so"
    if _is_offline():
        return f"{text} is {NOT_HERE}, and {OFFLINE} it from being downloaded"
    more = beginning((*(() if place is None else place.completions), *names))
    goes_on = f"; {tab} completes: {more}" if len(more) > len(text) else ""
    return f"{text} is {NOT_HERE}: {enter} downloads it from the Hub{goes_on}"


def _listed(place: Place | None, tab: str) -> str:
    """List what a path may become; nothing where nothing follows."""
    every = place.completions if place is not None else ()
    names = [each.rstrip("/").rpartition("/")[2] for each in every[:LISTED]]
    return f"{tab} completes: {'  '.join(names)}{'  …' * (len(every) > LISTED)}" if every else ""


def beginning(texts: Sequence[str]) -> str:
    """Give what all of some texts begin with."""
    first, last = min(texts, default=""), max(texts, default="")
    place = next((n for n, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:place]
