"""The command ``survey``: tables of many checkpoints, with progress on standard error."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from engine.surveys import runner
from engine.surveys.checkpoint_names import CheckpointName
from engine.surveys.runner import DEFAULT_ENERGY, DOWNLOADS, RUN, TABLES, SurveyProgress, query_of, tables_named
from engine.surveys.survey_folder import IDENTITY
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.progress import Progress
from tui.cli.configuration import ConfiguredCommand
from tui.cli.options import check_epsilon, complete_model, one_line_errors, running_options, take_options
from tui.cli.status_line import StatusLine

_HELP = f"""Measure every head of many checkpoints, and write a Parquet file for each.

\b
MODEL is  EleutherAI/pythia-70m                  an id on the Hub
          EleutherAI/pythia-70m@step1000,main    some of its branches, tags or commits
          EleutherAI/pythia-70m@log              its steps nearest to powers of two
          ./run                                  a model's folder, or a training run with its checkpoint-NUMBER

Tables: {", ".join(TABLES)}. The model is run for those from {RUN[0]} on. heads has labels and patterns only if patterns
or --text is given, too.

Checkpoints that are measured already, with the same options of the same files, are skipped: after an interrupt the same
command goes on. Checkpoints that cannot be measured are listed in failures.parquet; the exit code is then 1. To look at
the result: attn-tui DIR.
"""


@click.command(cls=ConfiguredCommand, short_help="Measure every head of many checkpoints.", help=_HELP)
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_model)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    required=True,
    help="The survey's folder; on a cluster one that all machines share.",
)
@click.option(
    "--from",
    "listed",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="More models, one a line.",
)
@click.option(
    "--tables",
    default="ranks",
    callback=lambda ctx, parameter, value: tables_named(value),
    metavar="NAMES",
    help="Separated by commas.  [default: ranks]",
)
@click.option("--text", help="The sentence of the tables that need one.")
@click.option(
    "--energy", type=float, callback=check_epsilon, help=f"ε of the energy rank.  [default: {DEFAULT_ENERGY}]"
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes.  [default: processors / --threads]")
@click.option(
    "--scheduler", metavar="ADDRESS", help="A Dask scheduler that is running, such as tcp://host:8786, and its workers."
)
@click.option(
    "--downloads",
    type=click.IntRange(1),
    default=DOWNLOADS,
    metavar="N",
    help=f"Checkpoints to download at a time.  [default: {DOWNLOADS}]",
)
@click.option("--keep", is_flag=True, help="Keep what is downloaded, in DIR; else each goes once it is measured.")
@click.option("--watch", is_flag=True, help="Go on, and measure each new checkpoint of a training run.")
@click.option("--dashboard", is_flag=True, help="Serve Dask's dashboard on this machine.")
@click.option("--json", "as_json", is_flag=True, help="Write an event a line, as JSON, to standard output.")
@running_options
@one_line_errors
def survey(
    models: tuple[str, ...], output: Path, listed: Path | None, tables: tuple[str, ...], text: str | None,
    energy: float | None, workers: int | None, scheduler: str | None, downloads: int, keep: bool, watch: bool,
    dashboard: bool, as_json: bool, threads: int | None, **arguments: Any,
) -> None:  # fmt: skip
    """Measure every head of many checkpoints."""
    options = take_options({**arguments, "threads": threads or 1})
    if listed is not None:
        lines = (line.partition("#")[0].strip() for line in listed.read_text(encoding="utf-8").splitlines())
        models = (*models, *filter(None, lines))
    if not models:
        raise click.UsageError("give a model, or --from FILE")
    try:
        query_of(tables, text, energy or DEFAULT_ENERGY)
    except EngineError as error:
        raise click.UsageError(str(error)) from error
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # of processes that ctrl+c ends
    with StatusLine(sys.stderr) as status:
        said = _Report(status, as_json)
        try:
            runner.survey(
                models, output, tables, text=text, energy=energy or DEFAULT_ENERGY, options=options, workers=workers,
                threads=threads or 1, scheduler=scheduler, downloads=downloads, keep=keep, watch=watch,
                dashboard=dashboard, report=said.tell, announce=lambda link: status.say(f"dashboard: {link}"),
            )  # fmt: skip
        except KeyboardInterrupt:
            status.say(f"{said.last.here + said.last.done} of {said.last.total} are measured; the same command goes on")
            raise
    last = said.last
    said.event("end", measured=last.done, failed=last.failed, here=last.here)
    here = f", {last.here} before" if last.here else ""
    failed = f", {last.failed} could not be measured: {output}/failures.parquet says why" if last.failed else ""
    summary = f"{quantity(last.done, 'checkpoint')} measured{here}{failed}; look at them with: attn-tui {output}"
    if last.failed:
        raise EngineError(summary)
    click.echo(f"attn-tui: {summary}", err=True)


class _Report:
    """How far a survey is, for a person or, as JSON, for a script; `last` is how far it was last."""

    def __init__(self, status: StatusLine, as_json: bool) -> None:
        self._status = status
        self._as_json = as_json
        self.last = SurveyProgress(0, 0)

    def tell(self, progress: SurveyProgress) -> None:
        self.last = progress
        checkpoint, outcome = progress.checkpoint, progress.outcome
        if checkpoint is not None and outcome is not None:
            if outcome.reason:
                self._say(checkpoint, outcome.reason)
                self.event("failed", checkpoint, reason=outcome.reason)
            else:
                if outcome.left_out:
                    self._say(checkpoint, outcome.left_out)
                self.event("measured", checkpoint, rows=outcome.rows, seconds=round(outcome.seconds, 3))
        notes = [f"{progress.failed} failed"] if progress.failed else []
        if progress.rate is not None:
            notes.append(f"{progress.rate:.2g} a second" if progress.rate < 10 else f"{progress.rate:.0f} a second")
        ended = progress.here + progress.done + progress.failed
        waiting = f"waiting for {'new checkpoints' if ended == progress.total else 'a worker'}"
        note = " · ".join([*notes, f"{progress.running} running" if progress.running else waiting])
        self._status.show(Progress("measuring", ended, progress.total, "checkpoints", progress.rate, note))

    def _say(self, checkpoint: CheckpointName, why: str) -> None:
        self._status.say(why if str(checkpoint) in why else f"{checkpoint}: {why}")

    def event(self, kind: str, checkpoint: CheckpointName | None = None, **more: Any) -> None:
        if self._as_json:
            of = {} if checkpoint is None else dict(zip(IDENTITY, checkpoint.identity, strict=True))
            click.echo(json.dumps({"event": kind, **of, **more}))
