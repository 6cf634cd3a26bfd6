"""The commands beside the explorer: ``export``, ``check``, ``config`` and ``info``."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from engine.values.errors import EngineError
from engine.values.heads import MATRICES, STACKS
from engine.values.options import limit_threads
from engine.values.outline import LayerProof
from engine.values.progress import Progress
from engine.values.views import NEEDS
from engine.values.views import VIEWS as WORKED_OUT
from tui.cli.configuration import ConfiguredCommand, config_file, current_config, example_file
from tui.cli.options import (
    TABLE_OPTIONS,
    any_case,
    check_epsilon,
    comparing_options,
    complete_model,
    engine_options,
    one_line_errors,
    plain_place,
    table_options,
    take_options,
)
from tui.cli.status_line import StatusLine

PACKAGES = ("attn-tui", "torch", "transformers", "huggingface_hub", "safetensors", "textual", "rich", "numpy", "click")

VIEWS = {
    "ranks": "every measure, for each head and matrix; --head all: whole layers",
    "spectrum": "every singular value, with --vs both models'",
    "attention": "every weight of the maps for --text, with --vs both models'",
    "matrices": "the heads' W_Q, W_K, W_V, W_O and biases; -o heads.npz",
    **{view.name: view.summary for view in WORKED_OUT.values()},
}
"""What can be exported."""

_LIST = "\n".join(f"{name:<13} {says}" for name, says in VIEWS.items())

_OF_SENTENCES = ", ".join(name for name, needs in NEEDS.items() if "text" in needs)
_OF_TWO = ", ".join(name for name, needs in NEEDS.items() if "vs" in needs)

_EXPORT = f"""Write what the explorer shows: tables as CSV, JSON lines or Parquet, arrays as NumPy's .npz.

\b
{_LIST}

A sentence, --text, is needed by {_OF_SENTENCES}; a second model, --vs, by {_OF_TWO}; a file, -o heads.npz, by matrices.

A layer with NaN or infinite weights, or without a map of the sentence, is left out: a line on standard error says so,
and the exit code is still 0. If --layer or --head names such a layer, the command fails with exit code 1.
"""


@click.command(cls=ConfiguredCommand, short_help="Write a table or arrays, without the explorer.", help=_EXPORT)
@click.argument("model", shell_complete=complete_model)
@click.argument("view", type=any_case(tuple(VIEWS)), metavar="VIEW")
@click.option(
    "--layer", metavar="N", callback=plain_place, help="One layer; mean: the mean over the layers (attention)."
)
@click.option(
    "--head",
    metavar="L5H1",
    callback=plain_place,
    help="One head: L5H1, 5.1 or its number; all: whole layers; mean (attention).",
)
@click.option("--stack", type=any_case(STACKS), metavar="NAME", help="One stack of a model that has several.")
@click.option("--matrix", type=any_case(MATRICES), metavar="[Q|K|V|O|QK|OV]", help="One matrix.")
@click.option("--text", help="The sentence; without it, patterns and heads are of random tokens.")
@click.option(
    "--energy", type=float, callback=check_epsilon, help="ε of the energy rank (ranks, heads).  [default: 0.01]"
)
@table_options
@click.option("--where", metavar="FILTER", help="Only rows that match: 'energy_rank < 20 and head != all'.")
@click.option(
    "--columns", metavar="NAMES", help="Columns, separated by commas; all: with chance.  [default: the view's own]"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write.  [default: standard output]",
)
@click.option(
    "--format",
    type=any_case(("csv", "jsonl", "parquet", "npz")),
    help="The format, if FILE's ending names none; .csv.gz and .jsonl.gz work too.  [default: csv]",
)
@comparing_options
@engine_options
@one_line_errors
def export(model: str, view: str, **arguments: Any) -> None:
    """Write a table, or maps and matrices as NumPy arrays."""
    options = take_options(arguments)
    source = click.get_current_context().get_parameter_source("energy")
    if view != "ranks" and source is not ParameterSource.COMMANDLINE:
        arguments["energy"] = None  # a configured ε is for the ranks alone
    _report_problems()
    from engine.service.engine import Engine
    from engine.store.export import format_of, text_of
    from tui.export.request import Export, Request

    of_request = {name: arguments.pop(name) for name in ("where", "columns", "output", "format")}
    if str(of_request["output"]) in ("-", "/dev/stdout"):  # written to, not replaced
        of_request["output"] = None
    names = ("layer", "head", "stack", "matrix", "text", "energy", "vs", *TABLE_OPTIONS)
    arguments["vs"] = options.is_comparing or None
    request = Request(
        view, {name: arguments[name] for name in names if arguments[name] not in (None, ())}, **of_request
    )
    request.check()
    engine = Engine(options)
    with StatusLine(sys.stderr) as status:
        outline = engine.open(model, status.show).result()
        exporting = Export(engine, outline, request, status.show)
        engine.listener = status.say
        engine.watcher = status.show
        if request.output is not None:
            exporting.write(request.output, request.written_as)
        else:
            sys.stdout.writelines(text_of(exporting.pieces(), request.written_as))
            sys.stdout.flush()
    left_out = [f"{layer.stack} {layer} is left out: {what}" for layer, what in exporting.left_out.items()]
    for notice in (*exporting.notices, *exporting.lacking, *left_out):
        click.echo(f"attn-tui: {notice}", err=True)
    if request.output is not None:
        named = "npz" if request.output.suffix == ".npz" else format_of(request.output)
        said = "" if named == request.written_as else f" as {request.written_as}, which its ending does not say"
        click.echo(f"attn-tui: wrote {request.output}{said}", err=True)


@click.command(cls=ConfiguredCommand, short_help="Prove a model's heads against its own numbers.")
@click.argument("model", shell_complete=complete_model)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the result, in the format of FILE's ending.",
)
@engine_options
@one_line_errors
def check(model: str, output: Path | None, **arguments: Any) -> None:
    """Run the model on a few tokens and prove that the heads cut from its files are those it computes with.

    For every layer: what its heads write, added up, is what its attention writes; and where they look follows from
    their queries and keys.
    """
    options = take_options(arguments)
    _report_problems()
    from engine.analysis.weights import proof_table
    from engine.service.engine import Engine
    from engine.store.export import format_of, write_table
    from tui.screens.check_screen import describe_proof, summarise

    engine = Engine(options)
    proofs: list[LayerProof] = []
    with StatusLine(sys.stderr) as status:

        def deliver(proof: LayerProof, progress: Progress) -> None:
            proofs.append(proof)
            status.show(progress)

        engine.open(model, status.show).result()
        engine.check(deliver).result()
    rows = [describe_proof(proof) for proof in proofs]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, written, looked in rows:
        click.echo(f"{name:<{widths[0]}}  heads write: {written:<{widths[1]}}  heads look: {looked}")
    click.echo(summarise(proofs))
    if output is not None:
        write_table(proof_table(proofs), output, format_of(output) or "csv")
    if any(finding.holds is False for proof in proofs for finding in (proof.output, proof.scores)):
        raise EngineError(f"{model}: heads of this type are not cut as the model computes with them; do not trust them")


def _report_problems() -> None:
    for problem in current_config().problems:
        click.echo(f"attn-tui: {problem}", err=True)


@click.command()
@click.option("--example", is_flag=True, help="Print a commented file with every setting and every key.")
@one_line_errors
def config(example: bool) -> None:
    """Show where the configuration file is and what is wrong in it, or an example of it."""
    if example:
        click.echo(example_file(), nl=False)
        return
    group = click.get_current_context().find_root().command
    assert isinstance(group, click.Group)
    with group.commands["explore"].make_context("attn-tui", []):
        said = current_config()
    click.echo(f"{said.path}{'' if said.path.exists() else '  (not there yet; attn-tui config --example prints one)'}")
    wrong = said.all_problems()
    for problem in wrong:
        click.echo(f"attn-tui: {problem}", err=True)
    sys.exit(bool(wrong))


@click.command()
@one_line_errors
def info() -> None:
    """Show versions, devices and the paths of settings, caches and the log."""
    limit_threads(None)
    for package in PACKAGES:
        click.echo(f"{package:<18}{version(package)}")
    click.echo(f"{'python':<18}{platform.python_version()} on {platform.system()} {platform.machine()}")
    from engine.checkpoints.model_folders import hub_cache
    from engine.store.files import cache_directory, log_file, state_directory
    from engine.store.history import history_file

    for name, path in (
        ("settings", config_file()),
        ("last looked at", state_directory()),
        ("typed sentences", history_file()),
        ("opened before", state_directory() / "recent.json"),
        ("cache of spectra", cache_directory()),
        ("cache of models", hub_cache()),
        ("log", log_file()),
    ):
        click.echo(f"{name:<18}{path}{'' if os.path.exists(path) else '  (not there yet)'}")
    with suppress(OSError):  # the current folder may be gone
        click.echo(f"{'exports go to':<18}{Path.cwd()}  (the current folder)")
    from engine.models.devices import describe_devices, free_memories
    from engine.values.display_text import size

    click.echo(f"{'devices':<18}{describe_devices()}")
    for memory in free_memories():
        click.echo(f"{f'free on {memory.device}':<18}{'unknown' if memory.free is None else size(memory.free)}")
