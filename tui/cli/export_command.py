"""``attn-tui export``: the explorer's tables without the explorer."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from engine.service.engine import Engine
from engine.store.export import FORMATS, check_format, format_of, text_of, write_npz, write_table
from engine.values.errors import EngineError
from engine.values.options import EngineOptions
from engine.values.table import Table, left_out_reasons
from tui.cli.headless import open_headless
from tui.export.provenance import facts_of
from tui.export.request import Request
from tui.export.rows import Export
from tui.status_line import StatusLine


def run_export(model: str, request: Request, options: EngineOptions) -> None:
    """Open a model and write what is asked for.

    Raises
    ------
    EngineError : when the request cannot be met.
    click.UsageError : when its options contradict each other.
    """
    request = request.to_standard_output()
    request.check()
    if request.written_as in FORMATS:
        check_format(request.written_as, request.output)
    engine = Engine(options)
    with StatusLine(sys.stderr) as status:
        outline = open_headless(engine, model, status)
        export = Export.begin(engine, outline, request, status.show)
        engine.listen(status.say)  # before what takes long begins
        engine.watch(status.show)
        if request.output is None:
            _write_to_standard_output(export.pieces(), request.written_as)
        elif request.written_as == "npz":
            write_npz(export.arrays(), request.output)
        else:
            asked = {"where": request.where, "columns": request.columns}
            given = request.given() | {name: value for name, value in asked.items() if value}
            facts = facts_of(outline, options.revision, request.view, given)
            write_table(export.pieces(), request.output, request.written_as, facts)
    for notice in (*export.notices, *export.lacking, *left_out_reasons(export.left_out)):
        click.echo(f"attn-tui: {notice}", err=True)
    if request.output is not None:
        named = "npz" if request.output.suffix == ".npz" else format_of(request.output)
        said = "" if named == request.written_as else f" as {request.written_as}, which its ending does not say"
        click.echo(f"attn-tui: wrote {request.output}{said}", err=True)


def _write_to_standard_output(pieces: Iterator[Table], format: str) -> None:
    """Write a table where it can be read on.

    Raises
    ------
    EngineError : when there is no room for it.
    """
    try:
        sys.stdout.writelines(text_of(pieces, format))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise EngineError(f"standard output cannot be written: {error.strerror}; choose a file with -o") from error
