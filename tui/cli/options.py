"""Options that several commands share, and errors in one line."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from engine.checkpoints.model_folders import CACHED, cached_id, hub_cache
from engine.store.files import write_log
from engine.values.errors import EngineError
from engine.values.options import DTYPES, EngineOptions, limit_threads
from engine.values.views import Query
from tui.cli.standard_streams import exit_on_interrupt, is_stream_error

Command = TypeVar("Command", bound=Callable[..., Any])


def checked(read: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Make an option's callback of a function that raises `EngineError` for a value that it refuses."""

    def check(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else read(value)
        except EngineError as error:
            raise click.BadParameter(str(error)) from error

    return check


check_epsilon = checked(lambda value: Query(epsilon=value).epsilon)

check_device = checked(lambda name: EngineOptions(device=name.lower()).device)
"""Whether this machine has the device turns out when it is used."""


def any_case(words: Iterable[str]) -> click.Choice[str]:
    """Make a choice whose words may be typed in any case."""
    return click.Choice(tuple(words), case_sensitive=False)


def plain_place(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Take ``ALL`` and ``Mean`` in any case, and ``L5`` as the number of a layer."""
    if value is None:
        return None
    plain = value.strip().lower()
    if parameter.name == "layer" and plain.removeprefix("l").isdigit():
        return plain.removeprefix("l")
    return plain if plain in ("all", "mean") else value


def token_position(typed: str) -> int | str:
    """Take the number of a token, or ``all``; `EngineError` otherwise."""
    place = typed.strip().lower()
    if place == "all" or place.isdecimal():
        return place if place == "all" else int(place)
    raise EngineError("give the number of a token, from 0, or all (lens)")


def complete_model(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the demo, the models in the local Hub cache and the folders here, or else files."""
    if incomplete.startswith((".", "/", "~")):
        return [CompletionItem(incomplete, type="file")]
    cached = sorted(cached_id(each.parent.name) for each in hub_cache().glob(f"{CACHED}*/snapshots"))
    folders = (f"{each.name}/" for each in sorted(Path().iterdir()) if each.is_dir() and not each.name.startswith("."))
    found = [name for name in ("demo", *cached, *folders) if name.startswith(incomplete)]
    return [CompletionItem(name) for name in found] or [CompletionItem(incomplete, type="file")]


_AT_EACH_END = "Tokens (predictions, lens, ablation), or at each end (directions, explain).  [default: 10]"
_STRONGEST = "Strongest directions, or terms with their tokens (directions, explain).  [default: 10]"

TABLE_OPTIONS: dict[str, Callable[[Command], Command]] = {
    "top": click.option("--top", type=click.IntRange(1), metavar="N", help=_AT_EACH_END),
    "first": click.option("--first", type=click.IntRange(1), metavar="K", help=_STRONGEST),
    "distance": click.option(
        "--distance",
        type=click.IntRange(0),
        metavar="N",
        help="Rotary QK for a key N tokens before the query (also ranks).",
    ),
    "norms": click.option("--norms", is_flag=True, default=None, help="Compute the norm of every parameter (weights)."),
    "position": click.option(
        "--position",
        metavar="Q",
        callback=checked(token_position),
        help="A token of the sentence, from 0; all (lens).  [default: the last]",
    ),
    "key": click.option(
        "--key",
        type=click.IntRange(0),
        metavar="K",
        help="The key's token (explain).  [default: of the largest weight]",
    ),
    "fold_norm": click.option(
        "--fold-norm", is_flag=True, default=None, help="Fold the gains of the norms in (circuits, directions)."
    ),
    "token": click.option(
        "--token",
        metavar="TOKEN",
        help="The token to measure: its text, or #ID.  [default: the likeliest] (ablation …)",
    ),
    "against": click.option(
        "--against", metavar="TOKEN", help="Another token: measure --token's logit less that one's (ablation …)."
    ),
    "off": click.option(
        "--off", multiple=True, metavar="HEADS", help="Switch heads off: L5H1, 'L5H1 L5H2', L5 (ablation …)."
    ),
    "eigenvalues": click.option(
        "--eigenvalues",
        is_flag=True,
        default=None,
        help="Also for layers wider than 1,024, which takes long (circuits).",
    ),
    "by_mean": click.option(
        "--mean", "--by-mean", "by_mean", is_flag=True, default=None, help="Switch off by the mean, not by zero."
    ),
}
"""Options of computed tables, by the field of `engine.values.views.Query` that each sets."""


def _decorator(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make a decorator that adds options to a command in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


table_options = _decorator(*TABLE_OPTIONS.values())

comparing_options = _decorator(
    click.option(
        "--vs",
        "other",
        metavar="OTHER",
        shell_complete=complete_model,
        help="A second model to compare with; base: the one that an adapter changes.",
    ),
    click.option("--vs-revision", "other_revision", metavar="REV", help="Branch, tag or commit of the second model."),
)

running_options = _decorator(
    click.option(
        "--device",
        default="auto",
        callback=check_device,
        help="auto, cpu, cuda, cuda:N or mps.",
    ),
    click.option(
        "--dtype",
        type=any_case(DTYPES),
        default="auto",
        help="The model's dtype for a sentence; spectra are always float64.",
    ),
    click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads for linear algebra."),
    click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the model."),
)

engine_options = _decorator(
    running_options,
    click.option("--revision", metavar="REV", help="Branch, tag or commit of a Hub model."),
    click.option(
        "--base",
        metavar="MODEL",
        shell_complete=complete_model,
        help="The model that an adapter changes, if not the one it names.",
    ),
    click.option("--cache/--no-cache", "use_cache", default=True, help="Use the cache of spectra on disk, or not."),
    click.option(
        "--layout",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Describes the heads of a bare state dict.",
    ),
)


def take_options(arguments: dict[str, Any]) -> EngineOptions:
    """Remove the engine's options from a command's arguments, and set the threads before heavy imports."""
    limit_threads(arguments.pop("threads"))
    names = {each.name for each in fields(EngineOptions)} & arguments.keys()
    return EngineOptions(**{name: arguments.pop(name) for name in names})


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Report an error in one line on standard error and exit with 1; ``--debug`` shows the traceback instead."""

    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(command)
    def run(*, debug: bool, **arguments: Any) -> None:
        try:
            with exit_on_interrupt():  # click itself would exit with 1
                command(**arguments)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if debug or (isinstance(error, OSError) and is_stream_error(error)):
                raise
            message = str(error) if isinstance(error, EngineError) else write_log(error)
            click.echo(f"attn-tui: {' '.join(message.split())}", err=True)
            sys.exit(1)

    return run
