"""The rows of ``check``: whether each layer's heads are those that the model computes with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.analysis.open_model import OpenModel
from engine.values.progress import Lane, Progress, finish
from engine.values.proof import LayerProof
from engine.values.table import PROOF_COLUMNS, Groups, RowGroup, Table
from engine.values.views import Query


def rows_of_check(model: OpenModel, query: Query) -> Groups:
    """Check layer by layer; the model reads a few tokens for it."""
    yield Lane.MODEL
    for proof, progress in proofs(model):
        yield RowGroup(list(proof_rows([proof])), progress=progress)


def proofs(model: OpenModel) -> Iterator[tuple[LayerProof, Progress]]:
    """Check, layer by layer, that the heads cut from the files are those that the model computes with.

    To be gone through on the model's lane.
    """
    reader = finish(model.reader())
    from engine.models.proof import prove

    seen = reader.observe(model.check)
    layers = model.outline.attending_layers
    for done, layer in enumerate(layers, start=1):
        proof = prove(model.source.anatomy.modules[layer.name], model.layer_weights(layer.name), seen[layer.name])
        yield proof, Progress("checking", done, len(layers), "layers")


def proof_rows(proofs: Iterable[LayerProof]) -> Iterator[tuple[str | int | float, ...]]:
    """Yield what a check has found: two rows a layer, for what its heads write and for where they look."""
    for proof in proofs:
        for identity, finding in (("output", proof.output), ("scores", proof.scores)):
            yield (proof.layer.stack, proof.layer.layer, identity, finding.verdict, finding.residual, finding.note)


def proof_table(proofs: Iterable[LayerProof]) -> Table:
    """List what a check has found."""
    return Table.of_rows("check", PROOF_COLUMNS, proof_rows(proofs))
