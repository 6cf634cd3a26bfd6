"""What a check of the cutting into heads has found, in words, and ``attn-tui check``."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from engine.analysis.check import proof_table
from engine.service.engine import Engine
from engine.store.export import format_of, write_table
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.options import EngineOptions
from engine.values.progress import Progress
from engine.values.proof import Finding, LayerProof
from tui.cli.headless import open_headless
from tui.status_line import StatusLine


def describe_finding(finding: Finding) -> str:
    """Write one finding: ``verified with query/key norm, 2e-07``."""
    link = {True: "with", False: ":", None: ":"}[finding.holds]
    separator = " " if finding.holds else ""
    said = f"{finding.verdict}{separator}{link} {finding.note}" if finding.note else finding.verdict
    return said if math.isnan(finding.residual) else f"{said}, {finding.residual:.0e}"


def describe_proof(proof: LayerProof) -> tuple[str, str, str]:
    """Write a layer's name and its two findings."""
    return f"{proof.layer.stack} {proof.layer}", describe_finding(proof.output), describe_finding(proof.scores)


def summarise(proofs: Iterable[LayerProof]) -> str:
    """Count layers by what is known of them: ``12 layers: 12 verified``."""
    states = [{proof.output.holds, proof.scores.holds} for proof in proofs]
    wrong = sum(False in state for state in states)
    verified = sum(state == {True} for state in states)
    parts = [f"{verified} verified"]
    parts += [f"{wrong} WRONG"] if wrong else []
    rest = len(states) - wrong - verified
    parts += [f"{rest} not wholly verifiable"] if rest else []
    return f"{quantity(len(states), 'layer')}: {', '.join(parts)}"


def run_check(model: str, output: Path | None, options: EngineOptions) -> None:
    """Check a model's heads, print what was found, and write it to a file where one is named.

    Raises
    ------
    EngineError : when the model cannot be opened or run, or a layer's heads are cut wrongly.
    """
    engine = Engine(options)
    proofs: list[LayerProof] = []
    with StatusLine(sys.stderr) as status:

        def deliver(proof: LayerProof, progress: Progress) -> None:
            proofs.append(proof)
            status.show(progress)

        open_headless(engine, model, status)
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
