"""Every binding of the explorer by its id, and whether the keys that a person chose for some can be had."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from tui.cli.config_lines import EXAMPLE, line_of
from tui.cli.key_syntax import is_letter, keys_in, readable, sent_as, why_no_keys
from tui.cli.settings import Config
from tui.key_watch import NOT_OVER
from tui.widgets.field import OF_EDITING

READING = ("sentence.read", "prompt.answer", "chooser.open", "field.submit")
"""What takes a line that has been typed, which without it is typed in vain."""

OF_MENUS = {"menu", "models"}
"""What the ids of keys of lists begin with, which are only on screens over the explorer."""

CLOSE = 0.75
"""How alike two names are at the least (`difflib`'s ratio) of which one may be the other, written wrongly."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A binding that can be given other keys.

    Attributes
    ----------
    id : names it.
    keys : that it has unless told otherwise.
    description : what it does.
    """

    id: str
    keys: tuple[str, ...]
    description: str


def classes_with_keys() -> Iterator[type[DOMNode]]:
    """Find every class of this package that keys belong to: the application, its screens and its widgets."""
    import tui

    found: dict[type[DOMNode], None] = {}
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and issubclass(each, DOMNode) and each.__module__.startswith("tui."):
                found[each] = None
    return (each for each in found if any("BINDINGS" in vars(base) for base in _ours(each)))


def _ours(kind: type[DOMNode]) -> list[type[DOMNode]]:
    """List those classes of this package that a class is made of."""
    return [base for base in kind.__mro__ if base.__module__.startswith("tui.") and issubclass(base, DOMNode)]


def bindings_of(kind: type[DOMNode]) -> list[Binding]:
    """List the bindings that a class has from this package, each with its keys as they are written there."""
    return [
        each if isinstance(each, Binding) else Binding(*each)
        for base in _ours(kind)
        for each in vars(base).get("BINDINGS", ())
    ]


def every_binding() -> dict[str, Bound]:
    """Collect all bindings by id, in the order of the ids' first parts: the application's own first."""
    found = {
        each.id: Bound(each.id, keys_in(each.key), each.description)
        for kind in classes_with_keys()
        for each in bindings_of(kind)
        if each.id is not None
    }
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith("app."), item[0].partition(".")[0])))


@dataclass(frozen=True, slots=True)
class Checked:
    """What becomes of the keys that a file sets.

    Attributes
    ----------
    keys : by id, separated by commas, as `App.set_keymap` takes them; none where a binding is to have no key.
    problems : what cannot be had, or does not all work, a line each.
    remarks : what works as it is written, and takes something away from other keys, a line each.
    """

    keys: dict[str, str]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


def check_keys(config: Config) -> Checked:
    """Choose which of the keys that a file sets can be had, and say what is wrong with the others.

    A binding whose keys cannot be had keeps its own. Of two that are given the same key the first in the file has it.
    """
    if not config.keys:
        return Checked({}, (), ())
    known = every_binding()
    wanted: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, written in sorted(config.keys.items(), key=lambda item: line_of(item[0], config.text) or 0):
        if name not in known:
            parts = sorted({f"{each.partition('.')[0]}.…" for each in known})
            near = [each for each in known if each.partition(".")[2] == name.rpartition(".")[2]]
            near = near or difflib.get_close_matches(name, known, 3, CLOSE) or parts
            there_are = f"there are {', '.join(near)}; {EXAMPLE} lists all"
            problems.append(f"{config.place(name)}: no binding is called {name}; {there_are}")
        elif why := why_no_keys(written):
            problems.append(f"{config.place(name)}: {name}: {why}; it keeps {_list(known[name].keys)}")
        else:
            keys = keys_in(written)
            unsent = [key for key in keys if sent_as(key) != key and key not in known[name].keys]
            own, come = known[name].keys, len(unsent) < len(keys)
            if keys or name not in READING:
                wanted[name] = keys if come or not keys else (*own, *keys)  # for some terminals do send them
            then = "give another" if come else f"it keeps {_list(own)}"
            said = [
                f"terminals send {readable(sent_as(key))} for {readable(key)}, which most likely never comes"
                for key in unsent
            ] or ["without a key nothing that is typed could be taken"] * (name not in wanted)
            problems += [f"{config.place(name)}: {name}: {why}; {then}" for why in said]
    while clash := _first_clash(known, wanted):
        key, name, other = clash
        del wanted[name]
        taken = f"{name}: {readable(key)} is taken by {other} ({known[other].description})"
        problems.append(f"{config.place(name)}: {taken}; it keeps {_list(known[name].keys)}")
    lost, remarks = _say_hidden(config, known, wanted)
    return Checked({name: ",".join(keys) for name, keys in wanted.items()}, (*problems, *lost), remarks)


def _say_hidden(
    config: Config, known: Mapping[str, Bound], wanted: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say which keys do not work in some part though a file gives them, and which others those take away that do.

    Who gives a part a key by name wants it there, whatever it does elsewhere.
    """
    hidden: dict[tuple[str, str, bool, bool], list[str]] = defaultdict(list)
    for key, name, other, is_over in _hidden(known, wanted):
        hidden[key, other, name in wanted, is_over].append(name)
    problems: list[str] = []
    remarks: list[str] = []
    for (key, other, is_wanted, is_over), names in hidden.items():
        inside = _and(list(dict.fromkeys(map(_part, names))))
        what = f"{names[0]} ({known[names[0]].description})" if len(names) == 1 else _and(names)
        does = names[0] if len(names) == 1 else "something else"
        taken = f"{other} and hides {what}" if is_over else f"{does} and hides {other} ({known[other].description})"
        place = config.place(names[0] if is_wanted else other)
        (problems if is_wanted == is_over else remarks).append(f"{place}: in the {inside}, {readable(key)} is {taken}")
    return tuple(problems), tuple(remarks)


def _and(words: list[str]) -> str:
    """Write words one after the other."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _part(name: str) -> str:
    """Give the part of the explorer that a binding is of."""
    return name.partition(".")[0]


def _hidden(known: Mapping[str, Bound], wanted: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str, str, bool]]:
    """List keys that a part has as well as the application: the part's id, the other, and whether that one is done.

    It is where it comes before all widgets, and else where the part has none: the toolkit asks from the inside out.
    """
    kinds = list(classes_with_keys()) if wanted else []
    anywhere = {str(each.id): each for kind in kinds if issubclass(kind, App) for each in bindings_of(kind)}
    over = OF_MENUS | {
        _part(str(each.id)) for kind in kinds if issubclass(kind, ModalScreen) for each in bindings_of(kind)
    }
    fields: dict[str, bool] = {}
    for kind in kinds:
        for each in bindings_of(kind) if not issubclass(kind, App | Screen) or issubclass(kind, ModalScreen) else ():
            fields[str(each.id)] = issubclass(kind, Input) and fields.get(str(each.id), True)
    found: list[tuple[str, str, str, bool]] = []
    for key, other in sorted((key, id) for id in anywhere for key in wanted.get(id, known[id].keys)):
        first = anywhere[other].priority
        for name in sorted(fields.keys() - anywhere.keys()):
            is_had = key in wanted.get(name, known[name].keys)
            is_usual = key in known[name].keys and key in known[other].keys
            is_typed = fields[name] and is_letter(key)  # which a line takes before anything else does
            comes = first and not (_part(name) in over and anywhere[other].action in NOT_OVER)
            is_meant = comes or not (first or _part(name) in over or name.startswith(OF_EDITING))
            if is_had and is_meant and not is_usual and not is_typed:
                found.append((key, name, other, comes))
    return found


def _list(keys: tuple[str, ...]) -> str:
    """Write keys one after the other."""
    return " ".join(map(readable, keys))


def _first_clash(known: Mapping[str, Bound], wanted: Mapping[str, tuple[str, ...]]) -> tuple[str, str, str] | None:
    """Find a key, the id that may not have it, and the other id of the same screen or widget that does.

    Of two in the file the second may not; what the first such loses can then be had by those that follow.
    """
    order = {name: place for place, name in enumerate(wanted)}
    found: tuple[str, str, str] | None = None
    for kind in classes_with_keys() if wanted else ():
        by_key: dict[str, dict[str, None]] = defaultdict(dict)
        for name in dict.fromkeys(each.id for each in bindings_of(kind) if each.id is not None):
            for key in wanted.get(name, known[name].keys):
                by_key[key][name] = None
        for key, names in by_key.items():
            for other, name in combinations(sorted(names, key=lambda name: order.get(name, -1)), 2):
                is_first = found is None or order.get(name, -1) < order[found[1]]
                if name in wanted and is_first and not (key in known[name].keys and key in known[other].keys):
                    found = key, name, other
    return found
