"""The ``attn-tui`` command: the explorer, ``export`` and ``info``. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click

from engine.service.log import write_log
from engine.service.options import EngineOptions, limit_threads
from engine.values.errors import EngineError
from engine.values.heads import MATRICES, STACKS

Command = TypeVar("Command", bound=Callable[..., Any])

VIEWS = ("ranks", "spectrum", "attention", "weights", "matrices")


class ExplorerGroup(click.Group):
    """A group whose first word is a model, unless it is a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read ``attn-tui gpt2 --text hi`` as ``attn-tui explore gpt2 --text hi``."""
        if not args or args[0] not in {*self.commands, "--help", "-h", "--version"}:
            args = ["explore", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show how both kinds of call look."""
        formatter.write_usage("attn-tui", "[MODEL] [OPTIONS]")
        formatter.write_usage("attn-tui", "COMMAND [ARGUMENTS]")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the explorer's options beside the commands."""
        explorer = click.Context(self.commands["explore"], info_name="attn-tui")
        parameters = [*self.commands["explore"].params, *self.get_params(ctx)]
        records = [
            record for each in parameters if (record := each.get_help_record(explorer)) is not None and record[1]
        ]
        with formatter.section("Options"):
            formatter.write_dl(records)
        self.format_commands(ctx, formatter)


class ExploreCommand(click.Command):
    """The explorer, which needs no word of its own on the command line."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Name the context as the person typed it."""
        return super().make_context("attn-tui", args, None, **extra)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show how the explorer is called."""
        formatter.write_usage("attn-tui", "[MODEL] [OPTIONS]")


def _epsilon(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Take ε only where it leaves some energy in and some out."""
    if value is not None and not 0 < value < 1:
        raise click.BadParameter("ε is the share of the energy left out: between 0 and 1, such as 0.01")
    return value


def _device(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Take the devices that torch knows; whether this machine has it is found out when it is used."""
    kind, _, number = value.partition(":")
    if value in ("auto", "cpu", "mps") or (kind == "cuda" and (number.isdigit() or value == "cuda")):
        return value
    raise click.BadParameter("give auto, cpu, cuda, cuda:N or mps")


def engine_options(command: Command) -> Command:
    """Add the options that say how the engine works."""
    for option in reversed(
        (
            click.option("--device", default="auto", callback=_device, help="auto, cpu, cuda, cuda:N or mps."),
            click.option(
                "--dtype",
                type=click.Choice(("auto", "float32", "bfloat16", "float16")),
                default="auto",
                help="In which the model runs a sentence; spectra are float64 always.",
            ),
            click.option("--revision", metavar="REV", help="Branch, tag or commit of a Hub model."),
            click.option("--base", metavar="MODEL", help="The model that an adapter changes, if not the one it names."),
            click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads for linear algebra."),
            click.option("--no-cache", is_flag=True, help="Neither read nor keep spectra on disk."),
            click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the model."),
            click.option(
                "--layout",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="FILE",
                help="Describes the heads of a bare state dict.",
            ),
            click.option("--debug", is_flag=True, help="Show the traceback of an error."),
        )
    ):
        command = option(command)
    return command


def _options(arguments: dict[str, Any]) -> EngineOptions:
    """Take the engine's options out of a command's arguments, and set the threads before anything heavy loads."""
    limit_threads(arguments.pop("threads"))
    return EngineOptions(
        device=arguments.pop("device"),
        dtype=arguments.pop("dtype"),
        revision=arguments.pop("revision"),
        use_cache=not arguments.pop("no_cache"),
        trust_remote_code=arguments.pop("trust_remote_code"),
        base=arguments.pop("base"),
        layout=arguments.pop("layout"),
    )


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Say what went wrong in one line on standard error and exit with 1; ``--debug`` shows the traceback instead."""

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        debug = arguments.pop("debug", False)
        try:
            command(**arguments)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            sys.exit(128 + signal.SIGPIPE)  # as a program that is ended by a closed pipe
        except Exception as error:
            if debug:
                raise
            message = str(error) if isinstance(error, EngineError) else write_log(error)
            click.echo(f"attn-tui: {' '.join(message.split())}", err=True)
            sys.exit(1)

    return run


@click.group(cls=ExplorerGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="attn-tui", prog_name="attn-tui")
def command() -> None:
    """Explore the attention heads of a transformer model: spectra, ranks and attention maps.

    MODEL is a Hub id such as gpt2, a folder written by save_pretrained, or demo, which needs no network.
    """


@command.command(hidden=True, cls=ExploreCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", required=False)
@click.option("--text", help="The sentence whose attention is shown.")
@click.option("--head", metavar="L5H1", help="The head, or layer, to begin at.")
@click.option("--energy", type=float, default=0.01, callback=_epsilon, help="ε of the energy rank.  [default: 0.01]")
@click.option("--theme", metavar="NAME", help="Colours; an unknown name lists them all.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters alone.")
@engine_options
@one_line_errors
def explore(
    model: str | None,
    text: str | None,
    head: str | None,
    energy: float,
    theme: str | None,
    ascii_only: bool,
    **arguments: Any,
) -> None:
    """Open the explorer."""
    options = _options(arguments)
    from tui.launch import launch

    launch(model, options, text=text, head=head, epsilon=energy, theme=theme, ascii_only=ascii_only)


@command.command(short_help="Write a table or arrays, without the explorer.")
@click.argument("model")
@click.argument("view", type=click.Choice(VIEWS))
@click.option("--layer", metavar="N", help="One layer; mean: the mean over the layers (attention).")
@click.option("--head", metavar="L5H1", help="One head: L5H1, 5.1 or its number; all: whole layers; mean (attention).")
@click.option("--stack", type=click.Choice(STACKS), metavar="NAME", help="One stack of a model that has several.")
@click.option("--matrix", type=click.Choice(MATRICES), help="One matrix.")
@click.option("--text", help="The sentence (attention).")
@click.option("--energy", type=float, callback=_epsilon, help="ε of the energy rank (ranks).  [default: 0.01]")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to, else standard output.")
@engine_options
@one_line_errors
def export(model: str, view: str, **arguments: Any) -> None:
    """Write what the explorer shows, as CSV or as NumPy arrays.

    \b
    ranks       every measure, for each head and whole layer, and each matrix
    spectrum    every singular value
    attention   every weight of the maps for --text; -o maps.npz: an array per layer
    weights     the checkpoint's tensors
    matrices    the heads' W_Q, W_K, W_V, W_O and biases; needs -o heads.npz
    """  # noqa: D301  # click reads the backslash as a character
    options = _options(arguments)
    from tui.export import Request, run_export

    run_export(model, Request(view=view, **arguments), options)


@command.command(short_help="Prove a model's heads against its own numbers.")
@click.argument("model")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write what was found as CSV too."
)
@engine_options
@one_line_errors
def check(model: str, output: Path | None, **arguments: Any) -> None:
    """Run the model on a few tokens and prove that the heads cut from its files are those it computes with.

    For every layer: what its heads write, added up, is what its attention writes; and where they look follows from
    their queries and keys.
    """
    options = _options(arguments)
    from tui.proofs import run_check

    run_check(model, output, options)


@command.command()
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@one_line_errors
def info() -> None:
    """Show versions, devices and the paths of settings, caches and the log."""
    limit_threads(None)
    from tui.info import lines

    for line in lines():
        click.echo(line)


def _leave(number: int, frame: FrameType | None) -> None:
    """End in order when the process is told to, so that nothing half-written is left."""
    sys.exit(128 + number)


def main() -> None:
    """Run the command and end the process at once.

    The engine thread may be deep in native code. Waiting for it would keep the shell from a person who has left, and
    tearing its libraries down under it aborts the process.
    """
    code: int | str | None = 0
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _leave)
    try:
        command()
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
