"""The rows of ``check``: whether each layer's heads are those that the model computes with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.analysis.open_model import OpenModel
from engine.values.progress import Lane
from engine.values.proof import LayerProof
from engine.values.table import PROOF_COLUMNS, Groups, RowGroup, Table
from engine.values.views import Query


def rows_of_check(model: OpenModel, query: Query) -> Groups:
    """Check layer by layer; the model reads a few tokens for it."""
    yield Lane.MODEL
    for proof, progress in model.proofs():
        yield RowGroup(list(proof_rows([proof])), progress=progress)


def proof_rows(proofs: Iterable[LayerProof]) -> Iterator[tuple[str | int | float, ...]]:
    """Yield what a check has found: two rows a layer, for what its heads write and for where they look."""
    for proof in proofs:
        for identity, finding in (("output", proof.output), ("scores", proof.scores)):
            yield (proof.layer.stack, proof.layer.layer, identity, finding.verdict, finding.residual, finding.note)


def proof_table(proofs: Iterable[LayerProof]) -> Table:
    """List what a check has found."""
    return Table.of_rows("check", PROOF_COLUMNS, proof_rows(proofs))
