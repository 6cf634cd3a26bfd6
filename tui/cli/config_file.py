"""What ``attn-tui config`` prints, and the file that it begins with ``--init``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import fill

from engine.store.files import requested_file
from engine.values.errors import EngineError
from engine.values.options import limit_threads
from tui.cli.config_lines import by_line
from tui.cli.configuration import Effective
from tui.cli.key_syntax import readable
from tui.cli.keymap import check_keys, every_binding
from tui.cli.settings import FILE_VARIABLE, SETTINGS, Config, config_file
from tui.themes import every_theme

_HEAD = """\
# Settings of attn-tui. A line that begins with # says what holds without it; take the # away to change it.
# What is typed comes first, then the environment (ATTN_TUI_THEME and so on), then this file.
"""

NO_KEY = "(no key)"
"""Stands for the keys of what has none."""

WIDTH = 110
"""Cells of a line of comments."""

_KEYS = """
[keys]
# By the id of what they do: one key, or several: "j,down"; "" is none. Keys are written n, N, ?, f5, ctrl+n,
# shift+left, pagedown, comma, or as `?` in the explorer names them, such as ^n, which shows the keys as they are.
"""


def describe(config: Config, settings: Sequence[Effective]) -> Iterator[str]:
    """Yield the file's path, then each setting with where it comes from, then the keys that the file changes."""
    state = "" if config.text or config.path.exists() else "  (not there; attn-tui config --init writes it)"
    yield f"{'file':<12}{config.path}{state}"
    for each in settings:
        yield f"{each.setting.name:<12}{each.value:<14}  {each.origin}"
    checked = check_keys(config)
    for name, written in checked.keys.items():
        each_once = " ".join(map(readable, dict.fromkeys(written.split(",")))) or NO_KEY
        yield f"{'keys':<12}{f'{name} = {each_once}':<30}  {config.place(name)}"
    for remark in checked.remarks:
        yield f"{'note':<12}{remark.removeprefix(f'{config.path}, ')}"


def problems_of(config: Config) -> tuple[str, ...]:
    """List everything that is wrong with the file, and before that with the environment."""
    return by_line((*config.problems, *check_keys(config).problems))


def commented() -> str:
    """Write a file in which every setting and every key stands as it is, commented out."""
    lines = [_HEAD]
    defaults = {name: each.default for name, each in SETTINGS.items()} | {"threads": str(limit_threads(None))}
    lines += [f"# {f'{name} = {defaults[name]}':<18} # {each.says}" for name, each in SETTINGS.items()]
    lines.append(_themes())
    lines.append(_KEYS)
    for part, group in groupby(every_binding().values(), lambda bound: bound.id.partition(".")[0]):
        lines.append(f"# {'anywhere' if part == 'app' else part}")
        for bound in group:
            setting = f'{bound.id} = "{",".join(map(readable, bound.keys))}"'
            lines.append(f"# {setting:<40} # {bound.description}")
        lines.append("")
    return "\n".join(lines)


def _themes() -> str:
    """Name every theme."""
    names = f"Themes: {', '.join(every_theme())}."
    return "\n" + fill(names, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def write_example(force: bool) -> str:
    """Write that file where the configuration is, and give its path.

    Raises
    ------
    EngineError : where there is one already, unless it may be written over, or it cannot be written.
    """
    path = config_file()
    if path.exists() and not force:
        raise EngineError(f"{path} is there already; --force writes over it, {FILE_VARIABLE} names another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(f"{path.parent} cannot be made: {error.strerror}; {FILE_VARIABLE} names another") from error
    with requested_file(path) as partial:
        partial.write_text(commented(), encoding="utf-8")
    return str(path)
