"""The configuration file: which settings there are, and what is wrong with what a person wrote into it.

Only the standard library is needed, most of it only where there is a file: that is read before the first frame.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.store.files import config_directory

FILE_VARIABLE = "ATTN_TUI_CONFIG"
"""Names another configuration file."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A default for an option of the command line.

    Attributes
    ----------
    name : as it stands in the file; the option is this with hyphens, the variable in capitals behind ``ATTN_TUI_``.
    default : what holds where nothing is said, as it stands in the file.
    says : what it does.
    """

    name: str
    default: str
    says: str

    @property
    def option(self) -> str:
        """The option of the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment's variable."""
        return f"ATTN_TUI_{self.name.upper()}"


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("theme", '"dark"', "dark, light, colour-blind, colour-blind-light, ansi, or one of Textual's own"),
        Setting("ascii", "false", "draw with ASCII characters alone"),
        Setting(
            "log_scale",
            "true",
            "true starts spectra and maps on the logarithmic scale, false on the linear one; unset, each view chooses",
        ),
        Setting("energy", "0.01", "ε of the energy rank"),
        Setting("restore", "true", "come back to the model's last head, view, sentence, measure and ε"),
        Setting("device", '"auto"', "auto, cpu, cuda, cuda:N or mps"),
        Setting("dtype", '"auto"', "the model's dtype for a sentence: auto, float32, bfloat16 or float16"),
        Setting("threads", "16", "threads for linear algebra; unset, OMP_NUM_THREADS, or one per core and at most 16"),
        Setting("cache", "true", "keep spectra on disk between runs"),
    )
}
"""By name, what the file may set beside keys."""


@dataclass(frozen=True, slots=True)
class Config:
    """What a configuration file says.

    Attributes
    ----------
    path : of the file.
    values : by the name of a setting, what it is set to; not looked at closer yet.
    keys : by the id of a binding, its keys, separated by commas, none if it is to have none; not looked at closer yet.
    problems : what is wrong with the file, a line each that names the place.
    text : the file as it is, to name lines in it.
    """

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    text: str = ""

    def place(self, name: str) -> str:
        r"""Name the file and the line in which something is set.

        Examples
        --------
        >>> Config(Path("c.toml"), text='ascii = true\n[keys]\ntree.down = "n"\n').place("tree.down")
        'c.toml, line 3'
        """
        from tui.cli.config_lines import line_of

        number = line_of(name, self.text)
        return str(self.path) if number is None else f"{self.path}, line {number}"


def config_file() -> Path:
    """Say where the configuration file is, whether or not it is there."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named).expanduser() if named else config_directory() / "config.toml"


def read_config() -> Config:
    """Read the configuration file; what cannot be read is a problem, never an error."""
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
        from tui.cli.config_lines import not_toml

        number, why = not_toml(str(error), text)
        return Config(path, problems=(f"{path}, line {number}: {why}; nothing in the file is used",), text=text)
    return _sort(Config(path, text=text), said)


def _sort(config: Config, said: dict[str, Any]) -> Config:
    """Tell settings from keys, and both from what is neither."""
    problems: list[str] = []
    keys: dict[str, str] = {}
    table = said.pop("keys", {})
    if isinstance(table, dict):
        for name, value in _flat(table):
            each = [] if value == "" else value if isinstance(value, list) else [value]
            if all(isinstance(key, str) and key for key in each):
                keys[name] = ",".join(each)
            else:
                wanted = 'takes keys, such as "n" or ["n", "ctrl+n"], or "" for none; it keeps its own'
                problems.append(f"{config.place(name)}: {name} {wanted}")
    else:
        problems.append(f'{config.place("keys")}: keys stand in a table of their own: [keys], then tree.down = "n"')
    for name, value in said.items():
        if name not in SETTINGS:
            problems.append(f"{config.place(name)}: {_unknown(name, value)}")
    values = {name: value for name, value in said.items() if name in SETTINGS}
    return Config(config.path, values, keys, tuple(problems), config.text)


def _unknown(name: str, value: Any) -> str:
    """Say that there is no such setting, and which there are."""
    meant = name.lower().replace("-", "_")
    if meant in SETTINGS:
        return f"there is no setting {name}; it is written {meant}"
    if isinstance(value, dict) and value.keys() & SETTINGS.keys():
        return f"there is no table [{name}]; settings stand above all tables, without one"
    return f"there is no setting {name}; there are {', '.join(SETTINGS)} and [keys]"


def _flat(table: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Write the names of nested tables with dots, as ids are: ``tree.down = "n"`` is a table in a table."""
    flat: list[tuple[str, Any]] = []
    for name, value in table.items():
        flat += _flat(value, f"{before}{name}.") if isinstance(value, dict) else [(f"{before}{name}", value)]
    return flat
