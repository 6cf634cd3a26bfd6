"""The man page, made from the command line's own definitions and the explorer's own keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version

import click

from tui.key_table import key_table

FILES = (
    ("$XDG_CACHE_HOME/attn-tui", "Spectra that were computed before; safe to delete."),
    ("$XDG_CONFIG_HOME/attn-tui", "Settings."),
    ("$XDG_STATE_HOME/attn-tui/log", "The log, with the traceback of what nobody foresaw."),
    ("$HF_HUB_CACHE", "The cache of models, else ~/.cache/huggingface/hub."),
)
"""Files and folders; ``attn-tui info`` prints where they are on this machine."""

ENVIRONMENT = (
    ("NO_COLOR", "Set to anything but nothing: no colours; each level of a map has a character of its own."),
    ("COLORTERM", "truecolor: all colours. Without it 256 are used, or 16, as TERM says."),
    ("HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE", "As the Hugging Face Hub's own tools read them."),
    ("OMP_NUM_THREADS", "Threads for linear algebra, where --threads is not given."),
)
"""Variables that are read."""

EXIT_CODES = (
    ("0", "Done; a layer whose weights hold NaN or infinite numbers may be left out, which standard error says."),
    ("1", "The request could not be met; one line on standard error says why, and what to do next."),
    ("2", "Wrong usage."),
    ("129, 130, 143", "Ended by SIGHUP, by ctrl+c (of a command), or by SIGTERM."),
)

EXAMPLES = (
    ("attn-tui demo", "Open the model that is shipped with the program; it needs no network."),
    ("attn-tui gpt2 --head L5H1", "Open a model of the Hub at a head."),
    ("attn-tui export demo ranks --head L1H0 --matrix QK", "Write the ranks of one head as CSV."),
    (
        "attn-tui export gpt2 attention --text 'the cat sat' -o maps.npz",
        "Write the maps of a sentence.",
    ),
    ("attn-tui check ./folder", "Prove the heads of a model against its own numbers."),
)


def man_page(group: click.Group) -> str:
    """Write the manual of a command and all its subcommands, as roff with the macros of man(7).

    Parameters
    ----------
    group : the command; the one that is hidden opens the explorer, and needs no word.
    """
    return "\n".join(_lines(group)) + "\n"


def _lines(group: click.Group) -> Iterator[str]:
    """Yield the lines of the manual."""
    context = click.Context(group, info_name="attn-tui")
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    explorer = next(command for command in commands.values() if command is not None and command.hidden)
    named = {name: command for name, command in commands.items() if command is not None and not command.hidden}
    yield f'.TH ATTN-TUI 1 "" "attn-tui {version("attn-tui")}" "User Commands"'
    yield from (".SH NAME", r"attn\-tui \- explore the attention heads of transformer models in a terminal")
    yield from (".SH SYNOPSIS", ".nf", r"\fBattn\-tui\fR [\fIMODEL\fR] [\fIOPTIONS\fR]")
    for name, command in named.items():
        words = [rf"\fI{_text(word)}\fR" for word in command.collect_usage_pieces(context) if word != "[OPTIONS]"]
        yield " ".join((rf"\fBattn\-tui {_text(name)}\fR", *words, r"[\fIOPTIONS\fR]"))
    yield from (".fi", ".SH DESCRIPTION", *_prose(group.help or ""))
    yield from (".SH OPTIONS", *_options(explorer), *_options(group))
    yield ".SH COMMANDS"
    for name, command in named.items():
        yield rf".SS attn\-tui {_text(name)}"
        yield from _prose(command.help or "")
        yield from _options(command)
    yield from (
        ".SH KEYS",
        "Of the explorer; ? shows those that work where you are.",
    )
    for place, keys in key_table():
        yield f".SS {_text(place)}"
        yield from _terms((" ".join(names), description) for names, description in keys)
    yield from (".SH EXIT STATUS", *_terms(EXIT_CODES), ".SH FILES", *_terms(FILES))
    yield from (".SH ENVIRONMENT", *_terms(ENVIRONMENT), ".SH EXAMPLES", *_terms(EXAMPLES))


def _options(command: click.Command) -> Iterator[str]:
    """Yield a command's options as its help has them."""
    context = click.Context(command, info_name="attn-tui")
    records = (each.get_help_record(context) for each in command.get_params(context) if isinstance(each, click.Option))
    yield from _terms(record for record in records if record is not None and record[0] != "--help")


def _terms(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield names with what they mean."""
    for name, meaning in pairs:
        yield from (".TP", rf"\fB{_text(name)}\fR", _text(meaning))


def _prose(help_text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; one that click is told to leave as it is stays so."""
    for paragraph in help_text.strip().split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[0] == "\b":
            yield from (".PP", ".nf", *map(_text, lines[1:]), ".fi")
        else:
            yield from (".PP", _text(" ".join(lines)))


def _text(text: str) -> str:
    """Write a text so that roff takes nothing in it for its own."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("\u2026", "...")
    escaped = "".join(character if character.isascii() else rf"\[u{ord(character):04X}]" for character in escaped)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
