"""``attn-tui export`` and ``attn-tui check``: work without the explorer, with progress on standard error."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from engine.analysis.weights import proof_table
from engine.service.engine import Engine
from engine.store.export import format_of, text_of, write_table
from engine.values.errors import EngineError
from engine.values.options import EngineOptions
from engine.values.outline import LayerProof
from engine.values.progress import Progress
from tui.cli.status_line import StatusLine
from tui.export.request import Export, Request


def run_export(model: str, request: Request, options: EngineOptions) -> None:
    """Open a model and write the requested table or arrays; `EngineError` when the request cannot be met.

    click.UsageError : when its options contradict each other.
    """
    request.check()
    engine = Engine(options)
    with StatusLine(sys.stderr) as status:
        outline = engine.open(model, status.show).result()
        export = Export(engine, outline, request, status.show)
        engine.listener = status.say
        engine.watcher = status.show
        if request.output is not None:
            export.write(request.output, request.written_as)
        else:
            sys.stdout.writelines(text_of(export.pieces(), request.written_as))
            sys.stdout.flush()
    left_out = [f"{layer.stack} {layer} is left out: {what}" for layer, what in export.left_out.items()]
    for notice in (*export.notices, *export.lacking, *left_out):
        click.echo(f"attn-tui: {notice}", err=True)
    if request.output is not None:
        named = "npz" if request.output.suffix == ".npz" else format_of(request.output)
        said = "" if named == request.written_as else f" as {request.written_as}, which its ending does not say"
        click.echo(f"attn-tui: wrote {request.output}{said}", err=True)


def run_check(model: str, output: Path | None, options: EngineOptions) -> None:
    """Check a model's heads, print the results, and write them to a file if one is named.

    `EngineError` when the model cannot be opened or run, or a layer's heads are cut wrongly.
    """
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
