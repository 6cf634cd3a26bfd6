"""The list of models that can be opened, which of them a text means, and what Enter does with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.widgets.option_list import Option

from engine.values.display_text import size
from engine.values.outline import GONE, FoundModel, Origin
from tui.drawing.text import escape_text, fit_end
from tui.screens.commands import WITHIN, fit_of
from tui.widgets.menu import Menu

HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
"""The form of an id on the Hub."""

SHORTEST = 4
"""Characters of the shortest ids without an organisation, such as ``gpt2``."""


def can_be_a_name(text: str) -> bool:
    """Say whether a text can be opened as it is, as a Hub id or a path.

    Examples
    --------
    >>> can_be_a_name("gpt2"), can_be_a_name("~/models/mine"), can_be_a_name("tiny gpt")
    (True, True, False)
    """
    return is_id(text) or "/" in text or text.startswith((".", "~"))


def is_id(text: str) -> bool:
    """Say whether a text can be an id on the Hub."""
    return HUB_ID.fullmatch(text) is not None and not text.startswith(".")


def best_match(text: str, names: Sequence[str]) -> str | None:
    """Choose the name that a text means among those that hold it; None where the text itself is the name.

    A name typed in full wins. A text with a slash is an id or a path by itself. A single word searches the names,
    unless it is long enough for an id and begins no word of any name.

    Parameters
    ----------
    text : what is typed.
    names : in the order in which they are listed.

    Examples
    --------
    >>> names = ("gpt2-medium", "distilgpt2", "openai/gpt2")
    >>> best_match("med", names), best_match("gpt2", names), best_match("openai/gpt2-xl", names)
    ('gpt2-medium', 'openai/gpt2', None)
    >>> best_match("gpt2", ("distilgpt2",)), best_match("t2", ("distilgpt2",))
    (None, 'distilgpt2')
    """
    typed = text.casefold()

    def fit(name: str) -> int:
        return fit_of(text, name, name.rpartition("/")[2])

    best = max(names, key=lambda name: (name == text, name.casefold() == typed, fit(name)), default=None)
    if best is None or not text or best.casefold() == typed:
        return best
    if "/" in text or text.startswith((".", "~")):
        return None
    return None if is_id(text) and len(text) >= SHORTEST and fit(best) <= WITHIN else best


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

COLUMNS = ((7, 30), (11, 50), (9, 60))
"""For size, type and layers × heads: the column's width, and the width of the list from which it is shown."""


def cells(model: FoundModel) -> tuple[str, str, str]:
    """Write the cells of a model's row: size, type, layers × heads."""
    shape = f"{model.layers} × {model.heads}" if model.layers and model.heads else str(model.layers or "")
    return size(model.size) if model.size else "", escape_text(model.model_type), shape


class FoundList(Menu):
    """Models by origin, under headings.

    Attributes
    ----------
    models : by name, in the order in which they are listed within their origin.
    typed : the text that narrows the list.
    """

    def __init__(self) -> None:
        super().__init__(markup=False, name="list of models")
        self.models: dict[str, FoundModel] = {}
        self._cached: set[str] = set()
        self.typed = ""
        self._begun_at: str | None = None
        self._is_all = False

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.fill()

    def add(self, found: Iterable[FoundModel]) -> None:
        """Add models; one opened before keeps its place and takes its size from the cache."""
        for model in found:
            known = self.models.get(model.name)
            if model.origin is Origin.HUB:
                self._cached.add(model.name)
            if known is not None and known.origin is not model.origin:
                model = replace(known, missing=model.missing, size=model.size or known.size)
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
        self.typed, self._begun_at = text.strip(), None
        self.fill()

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
        best = best_match(self.typed, [model.name for model in shown]) or AS_TYPED
        options: list[Option] = []
        if self.typed and (best == AS_TYPED or can_be_a_name(self.typed)) and best != self.typed:
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
        beside = _beside(cells(model), width)
        room = width - cell_len(beside)
        name = set_cell_size(fit_end(escape_text(model.name), room - 2 if model.missing else room - 1), room - 1)
        mark = "!" if model.missing else " "
        return Text.assemble((name, "dim" if model.missing else ""), (mark, "bold"), (beside, "dim"))

    def heading(self) -> Text:
        """Write the headings of the columns."""
        width = max(self.scrollable_content_region.width - 2, 10)
        beside = _beside(("size", "type", "L × H"), width)
        return Text("model".ljust(width - cell_len(beside)) + beside, "dim")


def _beside(texts: Sequence[str], width: int) -> str:
    """Join the cells of those columns that fit."""
    return "".join(
        set_cell_size(f"{text:>{columns}}" if columns < 10 else f"  {text}", columns)
        for (columns, least), text in zip(COLUMNS, texts, strict=True)
        if width >= least
    )


def enter_does(model: FoundModel | None, name: str, enter: str) -> str:
    """Say what Enter would do.

    Parameters
    ----------
    model : the one under the cursor; None where that is the typed text.
    name : its name, or the typed text.
    enter : the key that opens.
    """
    if model is None and is_id(name):
        return f"{name} is not listed: {enter} opens a folder of that name, or downloads it from the Hub"
    if model is None or not model.missing:
        return f"{enter} opens {name}"
    if model.missing == NOT_HERE:
        return f"{name} is {NOT_HERE}: {enter} downloads it"
    if model.missing == GONE:
        return f"{name} is gone; {enter} looks again"
    goes_on = "tries it" if name.startswith("/") else "downloads what is missing"
    return f"{name} is not complete: {model.missing}; {enter} {goes_on}"
