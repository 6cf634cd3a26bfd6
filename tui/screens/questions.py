"""The questions of the prompt: where to go or what to do, what to search in the tree, which token to find."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from engine.mathematics.attention import LABELS
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head, head_argument
from engine.values.outline import ALL_HEADS, LayerOutline, heads_named
from engine.values.views import Query, meaning
from tui.screens.commands import THEME, Command, commands_in_view, commands_on, show_measure
from tui.screens.prompt import Question
from tui.state.overview_measures import NAMES, by_spread
from tui.state.places import NoPlaceError, example, is_condition, parse_place, place_after, view_names
from tui.state.session import say_off, switch_heads
from tui.toolkit.keys import key_of
from tui.toolkit.messages import ConditionWanted, Notice, PlaceWanted
from tui.toolkit.themes import every_theme, known_theme
from tui.views.switcher import Views
from tui.views.table_view import TablePane
from tui.views.tree import HeadTree
from tui.widgets.field import candidates, complete_word
from tui.widgets.heatmap import Heatmap

MOST_TOKENS = 999_999_999
"""The largest distance that can be typed, far beyond any context."""

SWITCHES = ("off", "on")
"""The words before the heads that are switched."""

FOUND = "found"
"""Means the heads of the rows that a filter leaves, or of the matches of a search."""


class QuestionOfModel(Question):
    """A question about the open model; a condition on columns in place of an answer filters the table of all heads."""

    def __init__(self, views: Views) -> None:
        assert views.stores is not None, "open a model first"
        self._views = views
        self._session = views.session
        self._stores = views.stores
        self._outline = views.stores.outline

    @property
    def _completes(self) -> str:
        return f"{key_of(self._views, 'prompt.complete')} completes"

    @property
    def _filters(self) -> str:
        return f"{key_of(self._views, 'prompt.answer')} filters the table of all heads by that"

    def _filter(self, condition: str) -> None:
        self._views.post_message(ConditionWanted(condition.strip()))


class WhereTo(QuestionOfModel):
    """The question where to go or what to do."""

    label = "go to:"

    def __init__(self, views: Views, tree: HeadTree) -> None:
        super().__init__(views)
        self._tree = tree
        self._by_name: dict[str, Command] = {}
        for each in commands_on(views.app.screen):
            self._by_name.setdefault(each.name, each)
        self._view_names = view_names(is_comparing=views.is_comparing)

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """The words that an answer may begin with; measures are ordered by their spread, which takes a while."""
        stacks, measures = self._outline.stacks, (*by_spread(self._stores, self._session.shown), *NAMES)
        places = (*self._view_names, *(f"{stack}." for stack in stacks if len(stacks) > 1))
        named = (*(f"measure {name}" for name in measures), *(f"{THEME}{name}" for name in every_theme()))
        return tuple(dict.fromkeys((*places, *self._by_name, *named, "against", *SWITCHES)))

    def typed(self, text: str) -> str:
        """Describe the text so far; without text, give examples."""
        word, _, behind = text.strip().lower().partition(" ")
        head = example(self._outline)
        if word in SWITCHES and not behind.strip():
            which = f"{head}  L{head.layer}" if word == "off" else f"{ALL_HEADS}  {head}"
            return f"{which}  {FOUND} · {self._completes}"
        if word in SWITCHES:
            try:
                return quantity(len(self._heads_named(behind)), "head")
            except EngineError:
                return ""  # the name may be incomplete
        if is_condition(text):
            return self._filters
        if word == "measure":
            return meaning(behind.strip(), self._session.shown.epsilon)
        return "" if text else f"{head}  {head.layer}.{head.head}  h{head.head}  ranks · {self._completes}"

    def completions(self, text: str) -> tuple[str, ...]:
        """List the heads, places and commands that a text may become, or the heads that the last word may."""
        if text.strip().lower().partition(" ")[0] not in SWITCHES:
            layers = self._outline.layers if any(map(str.isdigit, text)) else ()
            return (*self._heads_begun(text.strip(), layers), *candidates(text, self._words))
        begun = text if " " in text else f"{text} "
        before, _, word = begun.rpartition(" ")
        found = (
            *candidates(word.lower(), (FOUND, ALL_HEADS)),
            *self._heads_begun(word, self._outline.attending_layers),
        )
        return (*([] if begun == text else [begun]), *(f"{before} {name}" for name in found))

    def _heads_begun(self, text: str, layers: Iterable[LayerOutline]) -> Iterator[str]:
        """List the layers and heads whose names begin with a text, with or without their stack."""
        every = (name for layer in layers for name in (layer.name, *layer.head_names()))
        names = (head_argument(name, self._outline.stacks) for name in every)
        begun = text.lower()
        return (each for each in names if any(of.lower().startswith(begun) for of in (each, each.rpartition(".")[2])))

    def answer(self, text: str) -> None:
        """Go there or do that; `EngineError` when the text means nothing, or more than one thing."""
        typed, selected = text.strip(), self._session.shown.selected
        word, _, behind = typed.partition(" ")
        word, behind = word.lower(), behind.strip()
        if not typed:
            return
        if word in SWITCHES:
            self._switch(word, behind.lower())
        elif word == THEME.strip():
            if (theme := known_theme(behind.lower())) is None:
                raise EngineError(f"no such theme; {self._completes} the name")
            self._views.app.call_later(self._views.run_action, f"app.choose_theme({theme!r})")
        elif is_condition(typed):
            self._filter(typed)
        elif word == "against":
            self._session.change(against=behind or None)
        elif word == "epsilon":
            self._session.change(epsilon=_epsilon(behind))
        elif word == "distance" and behind:
            self._views.app.call_later(self._views.spectra.show_distance, _distance(behind))
        elif word == "measure":
            show_measure(self._views, behind)
        elif typed.lower() in NAMES:
            show_measure(self._views, typed)
        elif word in self._view_names and behind:
            self._go(parse_place(behind, self._outline, selected, ()))
            self._go(word)
        elif typed.lower() not in self._view_names and (run := self._command_named(typed.lower())) is not None:
            self._views.app.call_later(run)
        else:
            try:
                self._go(parse_place(typed, self._outline, selected, self._view_names))
            except NoPlaceError:
                self._views.app.call_later(self._command_abbreviated(typed))

    def _go(self, place: Head | str) -> None:
        self._views.post_message(PlaceWanted(place))

    def _command_named(self, text: str) -> Callable[[], object] | None:
        """Find a command by its name; `EngineError` for a word after it."""
        word, _, behind = text.partition(" ")
        if behind and word in self._by_name:
            raise EngineError(f"{word} takes no more words; leave out '{behind}'")
        if text in self._by_name:
            return self._by_name[text].run
        return next((each.run for each in commands_in_view(self._views) if each.name == text), None)

    def _command_abbreviated(self, text: str) -> Callable[[], object]:
        """Find it by its key or by its beginning; `EngineError` when there is none, or more than one."""
        every, begin = list(self._by_name.values()), text.lower()
        of_key = [each for each in every if text in each.keys]
        named = [each for each in every if each.name.startswith(begin)]
        found = of_key or named or [each for each in every if each.description.lower().startswith(begin)]
        if len(found) == 1:
            return found[0].run
        if found:
            raise EngineError(f"could be {', '.join(each.name for each in found)}")
        palette, keys = key_of(self._views, "app.palette"), key_of(self._views, "app.help")
        raise EngineError(f"no such head, view or command; {palette}: all commands, {keys}: keys")

    def _switch(self, word: str, named: str) -> None:
        """Switch the named heads, or else the selected one, and say which are off; `EngineError` when none is named."""
        heads = self._heads_named(named) if named else self._heads_selected(word)
        off = switch_heads(self._session.shown.off, heads, is_off=word == "off")
        self._session.switch_off(off, is_comparing=self._views.is_comparing)
        said = say_off(off, self._outline.stacks, key_of(self._views, "app.all_on"))
        self._views.post_message(Notice(said))

    def _heads_selected(self, word: str) -> tuple[Head, ...]:
        row = self._views.row_head
        here = self._session.shown.selected if row is None else row
        if here is None:
            head = example(self._outline)
            raise EngineError(f"no head is selected; name heads: {word} {head}, or {word} {FOUND}")
        return heads_named(str(here), self._outline, here)

    def _heads_named(self, text: str) -> tuple[Head, ...]:
        named = dict[Head, None]()
        for word in text.replace(",", " ").split():
            named |= dict.fromkeys(
                self._heads_found() if word == FOUND else heads_named(word, self._outline, self._session.shown.selected)
            )
        return tuple(named)

    def _heads_found(self) -> tuple[Head, ...]:
        """Give those that the active view's filter leaves, else the matches in the tree; `EngineError` without any."""
        pane, shown, outline = self._views.active, self._session.shown, self._outline
        is_of_tree = shown.searched and self._tree.has_focus
        if isinstance(pane, TablePane) and pane.current_filter is not None and not is_of_tree:
            found, by = pane.heads_on_screen(), "the filter"
            if pane.is_unfinished:
                raise EngineError(f"{pane.view} is not complete yet; try again once it is")
        elif shown.searched:
            lines = (each for each in self._stores.found(shown.searched, shown) if not outline.layer(each).is_change)
            found = heads_named(" ".join(f"{each.stack}.{each}" for each in lines), outline)
            by = f"the search for {shown.searched}"
        else:
            key = key_of(self._views, "app.search")
            raise EngineError(f"nothing is filtered or searched; press {key} to do either")
        if not found:
            raise EngineError(f"{by} matches no head")
        return found


def _epsilon(text: str) -> float:
    """Read an ε; `EngineError` when it is no share of the energy."""
    try:
        epsilon = float(text)
    except ValueError:
        epsilon = math.nan
    Query(epsilon=epsilon)  # checks the range
    return epsilon


def _distance(text: str) -> int:
    """Read a distance; `EngineError` when it is no number of tokens."""
    if not (text.isdecimal() and len(text) <= len(str(MOST_TOKENS))):
        raise EngineError(f"a distance is a whole number of tokens, from 0 to {MOST_TOKENS}, such as 500")
    return int(text)


class Search(QuestionOfModel):
    """The question what to search in the tree; the cursor goes to the first match while the text is typed."""

    label = "/"

    def __init__(self, views: Views, tree: HeadTree) -> None:
        super().__init__(views)
        self._tree = tree
        self._from = self._session.shown.selected
        self._opened: Head | None = None
        stacks = self._outline.stacks if len(self._outline.stacks) > 1 else ()
        marks = (mark.lower() for layer in self._outline.layers for mark in layer.marks)
        every = (*(label.name for label in self._stores.labels.values()), *stacks, *marks, "pinned", "off")
        self.names = tuple(dict.fromkeys(every))

    def typed(self, text: str) -> str:
        """Go to the first match after the place where the search began, and count the matches."""
        found = self._found(text)
        self._tree.mark_found(found)
        if is_condition(text):
            return self._filters
        if found and text.strip():
            place, _ = place_after(found, self._from, self._outline, 1, or_here=True)
            self._go_to(found[place])
            return f"{place + 1} of {len(found)}"
        self._go_to(self._from)
        word = text.strip().lower()
        if not word:
            head = example(self._outline)
            return f"{head.layer}.{head.head}  {head}  H{head.head}  induction  pinned  off · {self._completes}"
        if not self._stores.is_labelled:
            return "no match; heads get labels when a sentence is read"
        return f"there is no head {word}" if word in LABELS.values() else "no match"

    def _found(self, text: str) -> tuple[Head, ...]:
        return self._stores.found(text, self._session.shown)

    def _go_to(self, head: Head | None) -> None:
        """Go to a line, and close the layer that was opened for the previous match."""
        if head == self._session.shown.selected:
            return
        tree = self._tree
        if self._opened is not None and (head is None or head.whole_layer != self._opened):
            tree.close_layer(self._opened)
            self._opened = None
        if head is not None and not tree.is_open(head):
            self._opened = head.whole_layer
        self._session.change(selected=head)

    def answer(self, text: str) -> None:
        """Stay at the match; a condition filters the table of all heads; `EngineError` when nothing matches."""
        if is_condition(text):
            self.leave()
            self._filter(text)
            return
        if text.strip() and not self._found(text):
            raise EngineError(self.typed(text))
        self._session.change(searched=text.strip())

    def leave(self) -> None:
        """Go back to where the search began, and mark the previous matches."""
        self._go_to(self._from)
        self._tree.mark_found(self._found(self._session.shown.searched))


class FilterRows(Question):
    """The question which rows of a table to show; its line of explanations says what the text so far does."""

    label = "filter:"

    def __init__(self, pane: TablePane) -> None:
        self._pane = pane
        self.text = pane.begin_filter()

    def completions(self, text: str) -> tuple[str, ...]:
        """List the columns that the last word may become."""
        return complete_word(text, self._pane.columns)

    def typed(self, text: str) -> str:
        """Narrow the rows."""
        self._pane.try_filter(text)
        return ""

    def answer(self, text: str) -> None:
        """Keep the filter, or go to a column; `EngineError` when the text is neither."""
        self._pane.finish_filter(text)

    def leave(self) -> None:
        """Go back to the filter before."""
        self._pane.leave_filter()


class FindToken(Question):
    """The question which token of a map to find; the cursor goes to the first match while the text is typed."""

    label = "/"

    def __init__(self, heatmap: Heatmap) -> None:
        assert heatmap.pooled is not None, "there are tokens once there is a map"
        self._heatmap = heatmap
        self._from = heatmap.cursor
        self._count = len(heatmap.pooled.query_tokens)
        self.names = tuple(dict.fromkeys(each.strip() for each in heatmap.pooled.query_tokens))

    def typed(self, text: str) -> str:
        """Go to the first match after the place where the search began, and count the matches."""
        found = self._found(text)
        if not found:
            self.leave()
            examples = f"a token or its number · {key_of(self._heatmap, 'prompt.complete')} completes"
            return "no token has that" if text.strip() else examples
        place = next((at for at, query in enumerate(found) if query >= self._from[0]), 0)
        self._heatmap.go_to_token(found[place])
        return f"{place + 1} of {len(found)}"

    def answer(self, text: str) -> None:
        """Stay at the match; `EngineError` when nothing matches."""
        if text.strip() and not self._found(text):
            raise EngineError(self.typed(text))
        if self._heatmap.found(text):
            self._heatmap.searched = text.strip()

    def _found(self, text: str) -> tuple[int, ...]:
        """Give the tokens that hold a text, or else the one with that number."""
        number = text.strip()
        is_number = number.isdecimal() and len(number) < len(str(MOST_TOKENS)) and int(number) < self._count
        return self._heatmap.found(text) or ((int(number),) if is_number else ())

    def leave(self) -> None:
        """Go back to where the search began."""
        self._heatmap.move_to(*self._from)
