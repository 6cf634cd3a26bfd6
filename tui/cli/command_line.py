"""The ``attn-tui`` command: the explorer, and the dispatch to the other commands. It imports only what it needs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from dataclasses import replace
from importlib import import_module
from types import FrameType
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from engine.checkpoints.model_folders import clean_name
from engine.store.files import remove_partial_files
from tui.app.start import Start
from tui.cli.configuration import ConfiguredCommand, current_config
from tui.cli.options import (
    check_epsilon,
    checked,
    comparing_options,
    complete_model,
    engine_options,
    one_line_errors,
    take_options,
)
from tui.cli.standard_streams import ClosedStream, guard_standard_streams, is_ascii_locale, unwritable

COMMANDS = ("check", "config", "export", "info", "survey")
"""The commands beside the explorer; their modules are imported when one of them, or the help, is asked for."""


def named_theme(name: str) -> str:
    """Give the full name of a theme; `EngineError` where there is none of that name."""
    from tui.toolkit.themes import find_theme

    return find_theme(name)


def complete_first_word(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer commands and models."""
    commands = [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]
    models = complete_model(ctx, parameter, incomplete)
    return [*commands, *(each for each in models if each.type == "plain" or not commands)]


OF_SURVEYS = {"model", "head", "theme", "ascii_only"}
"""The parameters of `explore` that the explorer of a survey takes."""


class ExplorerGroup(click.Group):
    """A group whose first word is a model, unless it is a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands, without importing them."""
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command by its name."""
        if cmd_name in COMMANDS:
            module = import_module("tui.cli.survey_command" if cmd_name == "survey" else "tui.cli.commands")
            found: click.Command = getattr(module, cmd_name)
            return found
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read ``attn-tui gpt2 --text hi`` as ``attn-tui explore gpt2 --text hi``."""
        if not args or args[0] not in {*self.commands, *COMMANDS, "--help", "-h"}:
            args = ["explore", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show both forms of the command line."""
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


class ExploreCommand(ConfiguredCommand):
    """The explorer's command, which is run without its name."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Show the program's name in messages."""
        return super().make_context("attn-tui", args, None, **extra)


@click.group(cls=ExplorerGroup, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Explore the attention heads of a transformer model: spectra, ranks and attention maps.

    MODEL is a Hub id such as gpt2, a folder written by save_pretrained, the folder of a survey, or demo, which needs no
    network.
    """


@command.command(hidden=True, cls=ExploreCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", required=False, shell_complete=complete_first_word)
@click.option("--text", help="The sentence whose attention is shown.")
@click.option("--head", metavar="L5H1", help="The head or layer to open.")
@click.option("--energy", type=float, callback=check_epsilon, help="ε of the energy rank.  [default: 0.01]")
@click.option(
    "--theme",
    metavar="NAME",
    callback=checked(named_theme),
    help="dark, light, colour-blind, ansi; attn-tui config --example lists all.",
)
@click.option("--no-history", is_flag=True, help="Do not read or keep typed sentences on disk.")
@click.option(
    "--ascii/--no-ascii", "ascii_only", default=None, help="Draw with ASCII alone.  [default: in the C locale]"
)
@click.option("--log-scale/--linear-scale", default=None, help="Start spectra and maps on this scale.")
@click.option("--restore/--fresh", default=True, help="Start where you left the model, or from the beginning.")
@click.option("--no-recent", is_flag=True, help="Do not list earlier models or remember this one.")
@comparing_options
@engine_options
@one_line_errors
@click.version_option(package_name="attn-tui", prog_name="attn-tui")
def explore(
    model: str | None,
    text: str | None,
    head: str | None,
    energy: float | None,
    theme: str | None,
    no_history: bool,
    ascii_only: bool | None,
    log_scale: bool | None,
    restore: bool,
    no_recent: bool,
    **arguments: Any,
) -> None:
    """Open the explorer."""
    options = replace(take_options(arguments), keep_recent=not no_recent, is_browsing=True)
    from tui.cli.launch import launch, launch_survey

    is_ascii = is_ascii_locale() if ascii_only is None else ascii_only
    if model is not None and os.path.isdir(os.path.expanduser(model)):
        from engine.surveys.survey_folder import SurveyFolder

        if (folder := SurveyFolder.at(model)) is not None:
            _refuse_options_of_models(click.get_current_context())
            launch_survey(folder, head, theme=theme, ascii_only=is_ascii)
            return
    start = Start(
        None if model is None else clean_name(model), text, head, energy,
        keeps_history=not no_history, log_scale=log_scale, config=current_config(), is_restoring=restore,
    )  # fmt: skip
    launch(start, options, theme=theme, ascii_only=is_ascii)


def _refuse_options_of_models(context: click.Context) -> None:
    for each in context.command.params:
        is_given = context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
        if is_given and each.name not in OF_SURVEYS:
            raise click.UsageError(f"{each.opts[0]} is for a model; a survey takes --head, --theme and --ascii")


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit on a signal, and leave no half-written file.

    An exception raised here could come while a lock is half taken, and would end as another error.
    """
    remove_partial_files()
    os._exit(128 + number)


def main() -> None:
    """Run the command and end the process at once.

    The engine thread may be deep in native code: waiting for it would delay the exit, and unloading its libraries
    under it aborts the process.
    """
    code: int | str | None = 0
    warnings.showwarning = lambda *said: None  # warnings of libraries would be written over the screen
    sys.stdin = sys.stdin or ClosedStream()
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _leave)
    sys.stdout, sys.stderr = sys.stdout or ClosedStream(), sys.stderr or ClosedStream()
    guard_standard_streams()
    try:
        command()
    except SystemExit as end:
        code = end.code
    except OSError as error:  # of a standard stream; the rest is caught by `one_line_errors`
        code = 1
        with contextlib.suppress(OSError):
            sys.stderr.write(f"attn-tui: {unwritable(error)}\n")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
