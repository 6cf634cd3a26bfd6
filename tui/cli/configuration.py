"""Settings from the environment and the configuration file, and an example of that file.

The file is read before the first frame: this module imports little more than the standard library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import click

from engine.store.files import config_directory
from engine.values.options import limit_threads
from tui.app.start import Config

FILE_VARIABLE = "ATTN_TUI_CONFIG"
"""The environment variable that names another configuration file."""

WIDTH = 110
"""Cells of a line of comments."""

EXAMPLE = "attn-tui config --example lists all"

_META = "attn-tui.config"

_HEAD = """\
# Settings of attn-tui. A line that begins with # shows a default; remove the # to change it.
# Options come first, then the environment (ATTN_TUI_THEME and so on), then this file.
"""

_KEYS = """
[keys]
# By the id of what they do: one key, or several: ["j", "down"]; "" is none. Keys are written n, N, ?, f5, ctrl+n,
# shift+left, pagedown, comma.
"""


class Setting(NamedTuple):
    """A setting, with its default as it is written in the file, and its description.

    The setting ``log_scale`` is the option ``--log-scale`` and the variable ``ATTN_TUI_LOG_SCALE``.
    """

    name: str
    default: str
    description: str

    @property
    def option(self) -> str:
        """The option of the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"ATTN_TUI_{self.name.upper()}"


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("theme", '"dark"', "dark, light, colour-blind, colour-blind-light, ansi, or one of Textual's own"),
        Setting("ascii", "false", "draw with ASCII characters alone"),
        Setting(
            "log_scale", "true", "unset, each view chooses; true: logarithmic scale for spectra and maps; false: linear"
        ),
        Setting("energy", "0.01", "ε of the energy rank"),
        Setting("restore", "true", "return to the model's last head, view, sentence, measure and ε"),
        Setting("device", '"auto"', "auto, cpu, cuda, cuda:N or mps"),
        Setting("dtype", '"auto"', "the model's dtype for a sentence: auto, float32, bfloat16 or float16"),
        Setting("threads", "16", "threads for linear algebra; unset, OMP_NUM_THREADS, or one per core and at most 16"),
        Setting("cache", "true", "keep spectra on disk between runs"),
    )
}
"""All settings by name; the file may also set keys."""


def config_file() -> Path:
    """Give the path of the configuration file, which may not exist."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named).expanduser() if named else config_directory() / "config.toml"


def read_config() -> Config:
    """Read the configuration file; an unreadable file is a problem in the result, not an error."""
    path = config_file()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        is_named = FILE_VARIABLE in os.environ
        return Config(path, problems=(f"{path}, which {FILE_VARIABLE} names, is not there",) if is_named else ())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        return Config(path, problems=(f"{path} cannot be read: {why}; nothing in it is used",))
    import tomllib

    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        from tui.drawing.text import escape_text

        why = escape_text(str(error))
        return Config(path, problems=(f"{path}: {why}; nothing in the file is used; {EXAMPLE}",))
    problems: list[str] = []
    table = said.pop("keys", {})
    if not isinstance(table, dict):
        problems.append(f'{path}: keys stand in a table of their own: [keys], then tree.down = "n"')
        table = {}
    keys = {name: _joined(value) for name, value in _flat(table)}
    problems += (f"{path}: there is no setting {name}; {EXAMPLE}" for name in said.keys() - SETTINGS.keys())
    return Config(path, {name: said[name] for name in SETTINGS if name in said}, keys, tuple(problems))


def _joined(value: Any) -> str:
    """Join one key or a list of keys by commas."""
    keys = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return ",".join(filter(None, map(str.strip, keys.split(","))))


def _flat(table: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the ids of nested tables: ``tree.down = "n"`` is a table in a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


class ConfiguredCommand(click.Command):
    """A command whose options default to the environment, then to the configuration file."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for name, parameter in self.configurable().items():
            parameter.envvar = SETTINGS[name].variable

    def configurable(self) -> dict[str, click.Parameter]:
        """Give the parameters that have a setting, by its name."""
        return {
            name: parameter
            for name, setting in SETTINGS.items()
            for parameter in self.params
            if setting.option in parameter.opts
        }

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Take the file's valid values as the defaults of the options."""
        config, probe, defaults = read_config(), click.Context(self), dict[str, str]()
        problems = list(config.problems)
        for name, parameter in self.configurable().items():
            value = config.values.get(name)
            if value in (None, ""):
                continue
            try:
                parameter.process_value(probe, str(value))
            except click.BadParameter as error:
                said = f"{config.path}: {name} = {json.dumps(value, ensure_ascii=False, default=str)}"
                problems.append(f"{said}: {error.message.partition('. ')[0].rstrip('.')}; it is not used")
            else:
                defaults[str(parameter.name)] = str(value)
        context = super().make_context(info_name, args, parent, default_map=defaults, **extra)
        context.meta[_META] = replace(config, problems=tuple(problems))
        return context


def current_config() -> Config:
    """Give the configuration of the running command."""
    config: Config = click.get_current_context().meta[_META]
    return config


def example_file() -> str:
    """Write a configuration file with every setting and every key at its default, commented out."""
    from tui.app.keymap import every_binding, readable
    from tui.toolkit.themes import every_theme

    defaults = {name: each.default for name, each in SETTINGS.items()} | {"threads": str(limit_threads(None))}
    lines = [
        _HEAD,
        *(f"# {f'{name} = {defaults[name]}':<18} # {each.description}" for name, each in SETTINGS.items()),
        "",
    ]
    themes = f"Themes: {', '.join(every_theme())}."
    lines.append(fill(themes, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False))
    lines.append(_KEYS)
    for part, group in groupby(every_binding().values(), lambda bound: bound.id.partition(".")[0]):
        lines.append(f"# {'anywhere' if part == 'app' else part}")
        for bound in group:
            keys = ", ".join(f'"{readable(key)}"' for key in bound.keys) or '""'
            setting = f"{bound.id} = {keys if len(bound.keys) < 2 else f'[{keys}]'}"
            lines.append(f"# {setting:<40} # {bound.description}")
        lines.append("")
    return "\n".join(lines)
