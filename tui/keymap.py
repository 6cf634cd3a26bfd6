"""Every binding of the explorer by its id, and whether the keys that a person chose for some can be had."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_DISPLAY_ALIASES, KEY_TO_UNICODE_NAME, REPLACED_KEYS, _character_to_key, format_key
from textual.screen import Screen

from tui.config_lines import EXAMPLE
from tui.field import OF_EDITING
from tui.settings import Config

MODIFIERS = {"ctrl", "shift", "alt", "meta", "super", "hyper"}
"""What can stand before a key, with a plus sign."""

WRITTEN_SO = "n, N, ?, f5, ctrl+n, shift+left, pagedown"
"""Examples of keys."""

SENT_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
"""Keys for which terminals send another one."""

TWICE = "gg"
"""What two quick presses of g come as."""

_NAMED = {
    key.value.rpartition("+")[2]
    for keys in ANSI_SEQUENCES_KEYS.values() if isinstance(keys, tuple)
    for key in keys
    if not key.value.startswith("<")
}  # fmt: skip
"""The keys without a sign that a terminal can send."""

_DISPLAYED = {shown: key for key, shown in KEY_DISPLAY_ALIASES.items()}
"""Keys by what the screen calls them."""

_LAST_ON_KEYBOARDS = "\uffff"
"""Signs beyond this one, pictures for the most part, are on no keyboard."""


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
        each.id: Bound(each.id, _keys(each.key), each.description)
        for kind in classes_with_keys()
        for each in bindings_of(kind)
        if each.id is not None
    }
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith("app."), item[0].partition(".")[0])))


def _keys(written: str) -> tuple[str, ...]:
    """Take a list of keys apart, each by the name that the toolkit has for it."""
    return tuple(as_pressed(key) for key in map(str.strip, written.split(",")) if key)


def as_pressed(written: str) -> str:
    """Name a key as the toolkit does when it is pressed, also where the screen or a person calls it otherwise.

    Examples
    --------
    >>> as_pressed("esc"), as_pressed("?"), as_pressed("shift+a"), as_pressed("shift+ctrl+pgdn")
    ('escape', 'question_mark', 'A', 'ctrl+shift+pagedown')
    """
    *modifiers, last = written.split("+") if len(written) > 1 else (written,)
    sign = last if len(last) == 1 else _sign(last)
    last = _DISPLAYED.get(last) or (_character_to_key(sign) if sign else last)
    if modifiers == ["shift"] and len(last) == 1 and last.isalpha():
        return last.upper()
    return "+".join((*sorted(modifiers), last))


def _sign(name: str) -> str:
    """Give the sign that has a name, or nothing where none on a keyboard has."""
    name = REPLACED_KEYS.get(name, name)
    try:
        sign = unicodedata.lookup(KEY_TO_UNICODE_NAME.get(name, name.replace("_", " ")))
    except KeyError:
        return ""
    return sign if sign <= _LAST_ON_KEYBOARDS and sign.isprintable() else ""


def readable(key: str) -> str:
    """Write a key as one would look for it: a sign by itself, but a comma, which separates keys, by its name.

    Examples
    --------
    >>> readable("question_mark"), readable("comma"), readable("ctrl+q")
    ('?', 'comma', 'ctrl+q')
    """
    sign = format_key(key)
    return sign if len(sign) == 1 and sign.isascii() and sign not in ',"\\' and "+" not in key else key


def is_key(key: str) -> bool:
    """Say whether there is a key of a name that `as_pressed` has given.

    With a modifier a terminal sends named keys, and of signs those of ASCII; what shift alone makes of a sign is
    another sign, and with other modifiers a capital is written as shift and its small letter.

    Examples
    --------
    >>> is_key("ctrl+n"), is_key("question_mark"), is_key("f5"), is_key("ctrl+nonsense"), is_key("shift+1")
    (True, True, True, False, False)
    """
    *modifiers, last = key.split("+")
    if not set(modifiers) <= MODIFIERS:
        return False
    sign = last if len(last) == 1 else _sign(last)
    if not sign:
        return last in _NAMED or key == TWICE
    return not modifiers or (sign.isascii() and not sign.isupper() and (modifiers != ["shift"] or sign.isspace()))


def check_keys(config: Config) -> tuple[dict[str, str], tuple[str, ...]]:
    """Choose which of the keys that a file sets can be had, and say what is wrong with the others.

    A binding whose keys cannot be had keeps its own.

    Returns
    -------
    keys : by id, separated by commas, as `App.set_keymap` takes them.
    problems : a line each.
    """
    known = every_binding()
    wanted: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, written in config.keys.items():
        keys = _keys(written)
        if name not in known:
            parts = sorted({f"{each.partition('.')[0]}.…" for each in known})
            near = [each for each in known if each.partition(".")[2] == name.rpartition(".")[2]]
            near = near or difflib.get_close_matches(name, known, 3, CLOSE) or parts
            there_are = f"there are {', '.join(near)}; {EXAMPLE} lists all"
            problems.append(f"{config.place(name)}: no binding is called {name}; {there_are}")
        elif unknown := [key for key in keys if not is_key(key)]:
            lower = [as_pressed(key.lower()) for key in unknown]
            is_case = [key.lower() for key in unknown] != unknown and all(map(is_key, lower))
            how = f"write {', '.join(lower)}" if is_case else f"keys are written {WRITTEN_SO}"
            why = f"{', '.join(unknown)} is no key; {how}"
            problems.append(f"{config.place(name)}: {name}: {why}; it keeps {_list(known[name].keys)}")
        else:
            wanted[name] = keys
            for key in keys:
                if key in SENT_AS:
                    said = f"terminals send {SENT_AS[key]} for {readable(key)}, which most likely never comes"
                    problems.append(f"{config.place(name)}: {name}: {said}; give another")
    while clash := _first_clash(known, wanted):
        key, name, other = clash
        del wanted[name]
        said = f"{name}: {readable(key)} is taken by {other} ({known[other].description})"
        problems.append(f"{config.place(name)}: {said}; it keeps {_list(known[name].keys)}")
    hidden: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, name, other in _hidden(known, wanted):
        hidden[key, other].append(name)
    for (key, other), names in hidden.items():
        inside = " and ".join(filter(None, (", ".join(map(_part, names[:-1])), _part(names[-1]))))
        does = names[0] if len(names) == 1 else "something else"
        taken = f"{readable(key)} is {does} and hides {other} ({known[other].description})"
        place = config.place(next((name for name in names if name in wanted), other))
        problems.append(f"{place}: in the {inside}, {taken}")
    return {name: ",".join(keys) for name, keys in wanted.items()}, tuple(problems)


def _part(name: str) -> str:
    """Give the part of the explorer that a binding is of."""
    return name.partition(".")[0]


def _hidden(known: Mapping[str, Bound], wanted: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str, str]]:
    """List keys that work anywhere but in a widget that has been given the same, and both ids."""
    kinds = list(classes_with_keys()) if wanted else []
    anywhere = {
        (key, str(each.id))
        for kind in kinds if issubclass(kind, App)
        for each in bindings_of(kind)
        for key in wanted.get(str(each.id), known[str(each.id)].keys)
    }  # fmt: skip
    inside = {str(each.id) for kind in kinds if not issubclass(kind, App | Screen) for each in bindings_of(kind)}
    inside -= {name for name in inside if name.startswith(OF_EDITING)}  # where every letter hides a key anyway
    return [
        (key, name, other)
        for key, other in sorted(anywhere)
        for name in sorted(inside - {id for _, id in anywhere})
        if key in wanted.get(name, known[name].keys)
        and not (key in known[name].keys and key in known[other].keys)
    ]  # fmt: skip


def _list(keys: tuple[str, ...]) -> str:
    """Write keys one after the other."""
    return " ".join(map(readable, keys))


def _first_clash(known: Mapping[str, Bound], wanted: Mapping[str, tuple[str, ...]]) -> tuple[str, str, str] | None:
    """Find a key, the id that was given it, and the other id of the same screen or widget that has it."""
    for kind in classes_with_keys() if wanted else ():
        by_key: dict[str, set[str]] = defaultdict(set)
        for name in {each.id for each in bindings_of(kind) if each.id is not None}:
            for key in wanted.get(name, known[name].keys):
                by_key[key].add(name)
        for key, names in by_key.items():
            for pair in combinations(sorted(names, key=lambda name: name not in wanted), 2):
                if pair[0] in wanted and not all(key in known[name].keys for name in pair):
                    return key, pair[0], pair[1]
    return None
