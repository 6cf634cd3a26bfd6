"""What README and docs/ say that the program can prove: commands with their output, Python, and generated tables.

``python -m tests.documentation`` writes the generated tables into the pages anew.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from click.testing import CliRunner
from textual.binding import Binding
from textual.keys import format_key

from engine.values.views import NEEDS
from tests.exporting import attn_tui
from tui.app.keymap import classes_with_keys
from tui.cli.command_line import command
from tui.cli.commands import VIEWS
from tui.cli.configuration import SETTINGS
from tui.toolkit.keys import MOVES, MOVING_KEYS, command_name, is_bound

REPOSITORY = Path(__file__).parents[1]

PAGES = (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
"""All that is written for users."""

WRITTEN = {"pageup": "PgUp", "pagedown": "PgDn", "escape": "Esc", "enter": "Enter", "tab": "Tab"}
"""How keys are written that the toolkit abbreviates by a sign."""

SURVEY = ("tui.app.survey_explorer", "tui.screens.survey_screen")
"""Modules of the explorer of surveys, whose shared keys have a page of their own."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"(<!-- table: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
_SPAN = re.compile(r"`(attn-tui(?: [^`\n]*)?)`")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def bindings() -> Iterator[Binding]:
    """Give every binding that has an id, one for each key, class by class."""
    for kind in classes_with_keys():
        if kind.__module__ in SURVEY:
            continue
        own = Binding.make_bindings(vars(kind).get("BINDINGS", ()))
        yield from (each for each in own if each.id is not None)


def blocks(page: Path, language: str) -> list[str]:
    return [body for of, body in _BLOCK.findall(page.read_text(encoding="utf-8")) if of == language]


def console_commands(page: Path) -> Iterator[tuple[str, str]]:
    """Give each command that stands behind ``$`` in a block of the language ``console``, and what it prints there.

    A command goes on in the next line until its quotes are closed.
    """
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines(keepends=True)
            length = next(n for n in range(1, len(lines) + 1) if _is_whole("".join(lines[:n])))
            yield "".join(lines[:length]).strip(), "".join(lines[length:])


def _is_whole(text: str) -> bool:
    """Say whether a shell would take this for a whole command."""
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


def printed(line: str, folder: Path) -> str:
    """Run a command line in a folder and give what it prints: attn-tui in this process, all else in a shell."""
    if not line.startswith("attn-tui"):
        return _shell(line, "", folder)
    end = next((at for at, sign in enumerate(line) if sign == "|" and _is_whole(line[:at])), len(line))
    done = attn_tui(*shlex.split(line[:end])[1:], folder=folder)
    rest = line[end + 1 :]
    return (_shell(rest, done.stdout, folder) if rest else done.stdout) + done.stderr


def _shell(line: str, given: str, folder: Path) -> str:
    here = Path(sys.executable).parent  # so that `python` is the one that runs the tests
    environment = os.environ | {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, input=given, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


class NumbersAlike(doctest.OutputChecker):
    """Compares what an example in Python gives as `is_printed` does."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return is_printed(want, got) or super().check_output(want, got, optionflags)


def run_python(page: Path) -> str:
    """Run a page's Python one block after the other, sessions with ``>>>`` as doctests; give what failed in these."""
    names: dict[str, Any] = {}
    said: list[str] = []
    runner = doctest.DocTestRunner(NumbersAlike(), verbose=False, optionflags=doctest.ELLIPSIS)
    for block in blocks(page, "python"):
        if block.startswith(">>> "):
            test = doctest.DocTestParser().get_doctest(block, names, page.name, None, None)
            runner.run(test, out=said.append, clear_globs=False)
            names |= test.globs
        else:
            exec(compile(block, page.name, "exec"), names)
    return "".join(said)


def is_printed(expected: str, text: str) -> bool:
    r"""Compare what a page says with what is printed: numbers to the digits that the page has, ``…`` is any text.

    A number with a point or an exponent may differ by one in its last digit, or by a part in 100,000, which another
    machine's float32 may make of it.

    Examples
    --------
    >>> is_printed("rank 3 of 1.57\n…\nend", "rank 3 of 1.5707\nmore\nend")
    True
    >>> is_printed("rank 3 of 1.57", "rank 4 of 1.57"), is_printed("rank 3 of 1.57", "rank 3 of 1.60")
    (False, False)
    """
    numbers = _NUMBER.findall(expected)
    between = [re.escape(each).replace("…", ".*?") for each in _NUMBER.split(expected)]
    found = re.fullmatch(f"({_NUMBER.pattern})".join(between), text, re.DOTALL)
    return found is not None and all(map(_is_number, numbers, found.groups()))


def _is_number(expected: str, text: str) -> bool:
    digits, _, exponent = expected.partition("e")
    if digits == expected and "." not in digits:
        return text == expected
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(float(text) - float(expected)) <= max(unit, 1e-5 * abs(float(expected))) * (1 + 1e-9)


def unread_lines(page: Path) -> list[str]:
    """Give the command lines, in the text and in blocks of the language ``sh``, that the program would not take."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()] + _SPAN.findall(_BLOCK.sub("", text))
    parts = {re.sub(r"^(\w+=\S+ )+", "", part.strip()) for line in lines for part in re.split(r"&&|\|", line)}
    return [each for each in sorted(parts) if re.match(r"attn-tui\b", each) and "…" not in each and not _is_read(each)]


def _is_read(line: str) -> bool:
    """Say whether the command takes every word of a line, of which nothing is done; VIEW stands for any view.

    A command's name by itself only names it.
    """
    context = click.Context(command)
    words = ["ranks" if word == "VIEW" else word for word in shlex.split(line, comments=True)[1:]]
    if words in [[name] for name in command.list_commands(context)]:
        return True
    with ExitStack() as idle:
        for name in command.list_commands(context):
            idle.enter_context(patch.object(command.get_command(context, name), "callback", lambda **_: None))
        return CliRunner().invoke(command, words).exit_code == 0


def with_tables(text: str) -> str:
    """Give a page's text with its generated tables as the program makes them now."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{_table(found[2])}\n\n{found[3]}", text)


def _table(name: str) -> str:
    """Write a table by its name, a kind and what of that kind, such as ``keys tree``."""
    kind, _, of = name.partition(" ")
    rows = {"keys": _keys, "moves": _moves, "options": _options, "views": _views, "settings": _settings}[kind](of)
    head = next(rows)
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def key_groups() -> dict[str, dict[str, list[Binding]]]:
    """Give all bindings by id, and these by where they work; those that work anywhere, by what they are about."""
    found: dict[str, dict[str, list[Binding]]] = {}
    for binding in bindings():
        assert binding.id is not None
        place = binding.id.partition(".")[0]
        group = f"app {binding.group.description}" if place == "app" and binding.group is not None else place
        found.setdefault(group, {}).setdefault(binding.id, []).append(binding)
    return found


def _keys(group: str) -> Iterator[list[str]]:
    """Give the keys of a group but those that move alike everywhere."""
    yield ["key", "what it does", "id"]
    for name, of_keys in key_groups()[group].items():
        if not {each.key for each in of_keys} <= MOVING_KEYS:
            bound = dict.fromkeys(each.key for each in of_keys if is_bound(each))
            names = [WRITTEN.get(key) or format_key(key) for key in bound]
            keys = " ".join(f"`{each.lower() if len(each) > 1 else each}`" for each in names)
            keys = keys or f"`:{command_name(of_keys[0])}`"
            yield [keys, of_keys[0].description, f"`{name}`"]


def _moves(_: str) -> Iterator[list[str]]:
    yield ["keys", "what they do"]
    for keys, said in MOVES:
        yield [" ".join(f"`{each}`" for each in keys.replace("^", "ctrl+").split()), said]


def _options(name: str) -> Iterator[list[str]]:
    """Give the options of a command; of the explorer's without a name."""
    context = click.Context(command)
    of = command.get_command(context, name or "explore")
    assert of is not None
    yield ["option", "what it does"]
    for parameter in of.params:
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            yield [f"`{record[0]}`", " ".join(record[1].split())]


def _views(_: str) -> Iterator[list[str]]:
    """Give the views that can be exported, and what each cannot do without."""
    needed = {"text": "`--text`", "vs": "`--vs`"}
    yield ["view", "what it holds", "needs"]
    for name, says in VIEWS.items():
        yield [f"`{name}`", says, ", ".join(text for need, text in needed.items() if need in NEEDS.get(name, ()))]


def _settings(_: str) -> Iterator[list[str]]:
    yield ["setting", "example", "option", "variable", "what it does"]
    for each in SETTINGS.values():
        yield [f"`{each.name}`", f"`{each.default}`", f"`{each.option}`", f"`{each.variable}`", each.description]


def main() -> None:
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
