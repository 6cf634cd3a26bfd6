"""The list of models that can be opened, which of them a text means, and what Enter does with it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.widgets.option_list import Option

from engine.values.display_text import size
from engine.values.found_models import GONE, FoundModel, Origin, Place
from tui.drawing.text import escape_text, fit_end
from tui.widgets.menu import Menu

HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
"""The form of an id on the Hub."""


SHORTEST = 4
"""Characters of the shortest ids without an organisation, such as ``gpt2``."""

WITHIN = 3
"""The least likely match: elsewhere than at the beginning of a word, or only in the model's type."""


def closeness(text: str, name: str) -> int:
    """Rate where a text stands in a name; the lowest is the most likely match, the highest is `WITHIN`.

    Examples
    --------
    >>> [closeness("gpt2", each) for each in ("openai/gpt2", "gpt2-medium", "tiny-gpt2", "distilgpt2")]
    [0, 1, 2, 3]
    """
    text, name = text.casefold(), name.casefold()
    last = name.rpartition("/")[2]
    if last == text:
        return 0
    if name.startswith(text) or last.startswith(text):
        return 1
    return 2 if re.search(rf"(?<![^\W_]){re.escape(text)}", name) else WITHIN


def can_be_a_name(text: str, place: Place | None) -> bool:
    """Say whether a text can be opened as it is, as a Hub id or a path.

    Parameters
    ----------
    text : what is typed.
    place : what is at that path; None until that is known.

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


def best_match(text: str, names: Sequence[str], place: Place | None) -> str | None:
    """Choose the name that a text means among those that hold it; None where the text itself is the name.

    A name typed in full wins. A text with a slash is an id or a path by itself. A single word searches the names,
    unless it is long enough for an id and begins no word of any name.

    Parameters
    ----------
    text : what is typed.
    names : in the order in which they are listed.
    place : what is at that path; None until that is known.

    Examples
    --------
    >>> names = ("gpt2-medium", "distilgpt2", "openai/gpt2")
    >>> best_match("med", names, None), best_match("gpt2", names, None), best_match("openai/gpt2-xl", names, None)
    ('gpt2-medium', 'openai/gpt2', None)
    >>> best_match("gpt2", ("distilgpt2",), None), best_match("t2", ("distilgpt2",), None)
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
    return None if is_id and closeness(text, best) == WITHIN else best


HEADINGS = {
    Origin.MEMORY: "in memory",
    Origin.DEMO: "shipped with attn-tui",
    Origin.RECENT: "opened before",
    Origin.HUB: "in the local Hub cache",
}
"""The heading above the models of each origin."""

AS_TYPED = "\0as typed"
"""The id of the option for the typed text itself; no model has such a name."""

NOT_HERE = "not on this machine"

NONE_YET = "the Hub cache is empty; type an id, such as gpt2, to download a model"

COLUMNS = ((7, 30), (11, 50), (9, 60), (12, 68))
"""For size, type, layers × heads and last use: the column's width, and the width of the list from which it is shown."""


def ago(seconds: float) -> str:
    """Write how long ago something was.

    Examples
    --------
    >>> ago(30), ago(7300), ago(86400 * 3), ago(86400 * 800)
    ('just now', '2 h ago', '3 days ago', '2 years ago')
    """
    for unit, length in (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            number = int(seconds // length)
            plural = "s" if number > 1 and unit not in ("h", "min") else ""
            return f"{number} {unit}{plural} ago"
    return "just now"


def cells(model: FoundModel, now: float) -> tuple[str, str, str, str]:
    """Write the cells of a model's row: size, type, layers × heads, last use."""
    shape = f"{model.layers} × {model.heads}" if model.layers and model.heads else str(model.layers or "")
    used = ago(max(now - model.last_used, 0.0)) if model.last_used else ""
    return size(model.size) if model.size else "", escape_text(model.model_type), shape, used


class FoundList(Menu):
    """Models by origin, under headings.

    Attributes
    ----------
    models : by name, in the order in which they are listed within their origin.
    typed : the text that narrows the list.
    place : what is at the typed path; None until that is known.
    """

    def __init__(self) -> None:
        super().__init__(markup=False, name="list of models")
        self.models: dict[str, FoundModel] = {}
        self._cached: set[str] = set()
        self.typed = ""
        self.place: Place | None = None
        self._begun_at: str | None = None
        self._is_all = False
        self._now = time.time()

    @property
    def foot_keys(self) -> dict[str, str]:
        """The keys at the foot; Escape clears the field first, then leaves."""
        return {
            "chooser.open": "Open",
            "chooser.leave": "Clear" if self.typed else "Leave",
            "chooser.search": "Search",
            "chooser.help": "Help",
            "menu.down": "Next",
            "menu.up": "Before",
            "menu.last": "Last",
            "menu.first": "First",
        }

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.fill()

    def add(self, found: Iterable[FoundModel]) -> None:
        """Add models; one opened before keeps its place and takes size and last use from the cache."""
        for model in found:
            known = self.models.get(model.name)
            if model.origin is Origin.HUB:
                self._cached.add(model.name)
            if known is not None and known.origin is not model.origin:
                merged = replace(known, missing=model.missing, size=model.size or known.size)
                model = replace(merged, last_used=max(model.last_used, known.last_used))
            self.models[model.name] = model
        self.fill()

    def finish(self) -> None:
        """Mark models opened before that are in no cache any more, once all models are found."""
        for name, model in self.models.items():
            if model.origin is Origin.RECENT and not name.startswith("/") and name not in self._cached:
                self.models[name] = replace(model, missing=NOT_HERE)
        self._is_all = True
        self.fill()

    @property
    def chosen(self) -> FoundModel | None:
        """The model under the cursor; None where the cursor is on the typed text, or on nothing."""
        option = self.highlighted_option
        return None if option is None or option.id is None else self.models.get(option.id)

    @property
    def name_chosen(self) -> str:
        """The name that Enter opens; empty where the list is."""
        option = self.highlighted_option
        if option is None or option.id is None:
            return ""
        return self.typed if option.id == AS_TYPED else option.id

    def narrow(self, text: str) -> None:
        """Show the models whose name or type has all words of a text, and the text itself where it can be opened."""
        self.typed, self.place = text.strip(), None
        self._begun_at = None
        self.fill()

    def learn(self, place: Place) -> None:
        """Take what is at the typed path."""
        self.place = place
        self.fill()

    def names_begun(self, text: str) -> tuple[str, ...]:
        """List the names that begin with a text."""
        return tuple(name for name in self.models if name.casefold().startswith(text.casefold()))

    def _shown(self) -> Iterator[FoundModel]:
        words = self.typed.casefold().split()
        for origin in Origin:
            for model in self.models.values():
                said = f"{model.name} {model.model_type}".casefold()
                if model.origin is origin and all(word in said for word in words):
                    yield model

    def fill(self) -> None:
        """Write the rows again; the cursor goes to the best match, unless the person has moved it."""
        here = self.highlighted_option.id if self.highlighted_option is not None else None
        width = max(self.scrollable_content_region.width - 2, 10)
        shown = tuple(self._shown())
        best = best_match(self.typed, [model.name for model in shown], self.place) or AS_TYPED
        options: list[Option] = []
        if self.typed and (best == AS_TYPED or can_be_a_name(self.typed, self.place)) and best != self.typed:
            options.append(Option(self._row_as_typed(width), id=AS_TYPED))
        origin: Origin | None = None
        for model in shown:
            if model.origin is not origin:
                origin = model.origin
                options.append(Option(Text(HEADINGS[origin], "dim"), disabled=True))
            options.append(Option(self._row(model, width), id=model.name))
        if self._is_all and not self._cached and not self.typed:
            options.append(Option(Text(NONE_YET, "dim"), disabled=True))
        self.clear_options()
        self.add_options(options)
        places = {option.id: place for place, option in enumerate(options) if option.id is not None}
        is_moved = self._begun_at is not None and here != self._begun_at and here in places
        if not is_moved:
            self._begun_at = best
        self.highlighted = places.get(here if is_moved and here is not None else best)

    def _row_as_typed(self, width: int) -> Text:
        said = " as typed"
        name = fit_end(escape_text(self.typed), width - len(said)).rstrip()
        return Text.assemble(set_cell_size(name, width - len(said)), (said, "dim"))

    def _row(self, model: FoundModel, width: int) -> Text:
        beside = _beside(cells(model, self._now), width)
        room = width - cell_len(beside)
        name = set_cell_size(fit_end(escape_text(model.name), room - 2 if model.missing else room - 1), room - 1)
        mark = "!" if model.missing else " "
        return Text.assemble((name, "dim" if model.missing else ""), (mark, "bold"), (beside, "dim"))

    def heading(self) -> Text:
        """Write the headings of the columns."""
        width = max(self.scrollable_content_region.width - 2, 10)
        beside = _beside(("size", "type", "L × H", "last used"), width)
        return Text("model".ljust(width - cell_len(beside)) + beside, "dim")


def _beside(texts: Sequence[str], width: int) -> str:
    """Join the cells of those columns that fit."""
    return "".join(
        set_cell_size(f"{text:>{columns}}" if columns < 10 else f"  {text}", columns)
        for (columns, least), text in zip(COLUMNS, texts, strict=True)
        if width >= least
    )


OFFLINE = "HF_HUB_OFFLINE keeps"

LISTED = 8
"""How many completions of a path are listed."""


def enter_does(
    model: FoundModel | None, name: str, place: Place | None, enter: str, tab: str, names: Sequence[str] = ()
) -> str:
    """Say what Enter would do.

    Parameters
    ----------
    model : the one under the cursor; None where that is the typed text.
    name : its name, or the typed text.
    place : what is at the typed path, once that is known.
    enter, tab : the keys that open and that complete.
    names : of listed models that begin with the typed text.
    """
    if model is None:
        return _with_text(name, place, enter, tab, names)
    if model.missing == NOT_HERE:
        downloads = f", and {OFFLINE} it from being downloaded" if _is_offline() else f": {enter} downloads it"
        return f"{name} is {NOT_HERE}{downloads}"
    if model.missing:
        if model.missing == GONE:
            return f"{name} is gone; {enter} looks again"
        goes_on = f"{enter} tries it" if name.startswith("/") else f"{enter} downloads what is missing"
        if not name.startswith("/") and _is_offline():
            goes_on = f"{OFFLINE} the rest from being downloaded"
        return f"{name} is not complete: {model.missing}; {goes_on}"
    return f"{enter} opens {name}"


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _with_text(text: str, place: Place | None, enter: str, tab: str, names: Sequence[str]) -> str:
    if place is not None and place.model:
        is_in = "of the model in its folder" if place.kind == "file" else "the Hub cache's name for a model"
        return f"{text} is {is_in}: {enter} opens {place.model}"
    completions = _listed(place, tab)
    if place is not None and place.is_empty and place.kind == "file":
        return f"{text} is a file; give the folder with config.json, or a .gguf file"
    if place is not None and place.is_empty:
        return f"the folder {text} holds no model" + (f"; {completions}" if completions else "")
    if place is not None and place.kind:
        return f"{enter} opens the {place.kind} {text}"
    if not HUB_ID.fullmatch(text) or text.startswith((".", "~")):
        return completions or f"{text} is neither a path here nor a Hub id"
    if _is_offline():
        return f"{text} is {NOT_HERE}, and {OFFLINE} it from being downloaded"
    more = beginning((*(() if place is None else place.completions), *names))
    goes_on = f"; {tab} completes: {more}" if len(more) > len(text) else ""
    return f"{text} is {NOT_HERE}: {enter} downloads it from the Hub{goes_on}"


def _listed(place: Place | None, tab: str) -> str:
    every = place.completions if place is not None else ()
    names = [each.rstrip("/").rpartition("/")[2] for each in every[:LISTED]]
    return f"{tab} completes: {'  '.join(names)}{'  …' * (len(every) > LISTED)}" if every else ""


def beginning(texts: Sequence[str]) -> str:
    """Give the longest common beginning of some texts."""
    first, last = min(texts, default=""), max(texts, default="")
    place = next((n for n, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:place]
