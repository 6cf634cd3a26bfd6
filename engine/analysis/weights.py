"""The rows of ``weights`` and ``check``, and the arrays of ``matrices``: parameters, and the heads cut from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.analysis.attention import Arrays
from engine.analysis.layers import NOTHING
from engine.analysis.open_model import OpenModel
from engine.values.errors import EngineError, LayerLeftOut, Superseded
from engine.values.heads import DELTA, Head, head_argument
from engine.values.outline import Finding, LayerOutline, LayerProof, ModelOutline, Parameter
from engine.values.progress import Lane, Progress, finish
from engine.values.table import PROOF_COLUMNS, Cell, Groups, Row, RowGroup, Table
from engine.values.views import Query

if TYPE_CHECKING:
    from torch import Tensor

Norm = tuple[float | str, str]
"""A norm, perhaps empty, and a note."""


def rows_of_weights(model: OpenModel, query: Query) -> Groups:
    """List the parameters of the model, or of some layers; later rows replace earlier ones.

    The files' headers give the first rows. Ties follow, which need an import of the model's code, and then, if the
    query wants them, norms, one tensor a unit.
    """
    stored = _wanted(model, model.source.parameters(with_ties=False), query)
    yield RowGroup(_rows(stored), progress=Progress("ties", 0, 0, ""))
    yield Lane.MODEL  # which imports the model's code
    listed = model.cached("parameters", model.source.parameters)
    yield Lane.WEIGHTS
    wanted = _wanted(model, listed, query)
    measured = model.cached("norms", dict[str, Norm])
    known = measured if query.norms else {}
    yield RowGroup(_rows(wanted, known), progress=Progress("ties", 1, 1, ""))
    if not query.norms:
        return
    by_name = {each.name: each for each in listed}
    for done, parameter in enumerate(wanted, start=1):
        yield None
        _measure(model, parameter, by_name, measured)
        yield RowGroup(_rows((parameter,), measured), progress=Progress("norms", done, len(wanted), "tensors"))


def _rows(listed: tuple[Parameter, ...], measured: Mapping[str, Norm] | None = None) -> list[tuple[Cell, ...]]:
    nothing = (NOTHING, NOTHING)
    return [
        (
            each.name, "x".join(map(str, each.shape)), each.dtype, each.parameters, each.tied_to, each.stored_bytes,
            *(measured or {}).get(each.name, nothing),
        )
        for each in listed
    ]  # fmt: skip


def _measure(
    model: OpenModel, parameter: Parameter, by_name: Mapping[str, Parameter], measured: dict[str, Norm]
) -> None:
    """Compute a parameter's norm, or say why it has none, and whether a tied name has numbers of its own."""
    from engine.mathematics.measures import tensor_norm

    name, tied_to = parameter.name, parameter.tied_to
    if name in measured:
        return
    if tied_to and not parameter.stored_bytes:
        _measure(model, by_name[tied_to], by_name, measured)
        norm, note = measured[tied_to]
        measured[name] = norm, note if norm == NOTHING else ""
        return
    try:
        norm = tensor_norm(_parts(model, name))
        if not math.isfinite(norm):
            raise EngineError("NaN, infinite or far too large numbers")
    except Superseded:
        raise
    except (EngineError, RuntimeError) as error:
        measured[name] = NOTHING, " ".join(str(error).split())
    else:
        is_same = bool(tied_to) and _is_same(model, name, tied_to)
        note = "stored a second time" if is_same else f"stored separately, and different from {tied_to}"
        measured[name] = norm, note if tied_to else ""


def _parts(model: OpenModel, name: str) -> Iterator[Tensor]:
    for part in model.source.parts(name):
        if not part.is_floating_point():
            raise EngineError(f"{str(part.dtype).removeprefix('torch.')} numbers, which are no weights")
        yield part
        model.check()


def _is_same(model: OpenModel, one: str, other: str) -> bool:
    for ours, theirs in zip(model.source.parts(one), model.source.parts(other), strict=True):
        model.check()
        if ours.dtype != theirs.dtype or not bool((ours == theirs).all()):
            return False
    return True


def _wanted(model: OpenModel, listed: tuple[Parameter, ...], query: Query) -> tuple[Parameter, ...]:
    wanted = {Head(each.stack.removesuffix(DELTA), each.layer) for each in (query.layer, *query.layers) if each}
    return tuple(each for each in listed if not wanted or _layer_of(each, model.outline) in wanted)


def _layer_of(parameter: Parameter, outline: ModelOutline) -> Head | None:
    """Find the layer of a parameter: of those with its number, the one whose attention is nearest by name."""

    def begins_alike(layer: LayerOutline) -> int:
        return sum(takewhile(bool, map(eq, parameter.name, layer.module)))

    alike = [layer for layer in outline.attending_layers if layer.layer == parameter.layer]
    return max(alike, key=begins_alike).name if alike else None


def matrices_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Arrays:
    """Yield the arrays of a query's heads, named ``L5H1.W_Q``, or with several stacks ``encoder.L5H1.W_Q``."""
    yield Lane.WEIGHTS
    for head, named in arrays_of(model, layer).items():
        for name, array in named.items():
            if query.wants(head.head) and query.matrix in (None, name.partition("_")[2]):
                yield f"{head_argument(head, model.outline.stacks)}.{name}", array


def arrays_of(model: OpenModel, layer: LayerOutline) -> dict[Head, dict[str, np.ndarray[Any, Any]]]:
    """Return W_Q, W_K, W_V, W_O and biases of every head of a layer; bfloat16 becomes float32, exactly."""
    import torch

    weights = model.layer_weights(layer.name)

    def array(tensor: Tensor) -> np.ndarray[Any, Any]:
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    return {
        head: {name: array(tensor) for name, tensor in weights.of_head(head.head).items()}
        for head in layer.head_names()
    }


def rows_of_check(model: OpenModel, query: Query) -> Groups:
    """Check layer by layer; the model reads a few tokens for it."""
    yield Lane.MODEL
    for proof, progress in proofs(model, query.layer):
        yield RowGroup(list(proof_rows([proof])), progress=progress)


def proofs(model: OpenModel, only: Head | None = None) -> Iterator[tuple[LayerProof, Progress]]:
    """Check, layer by layer on the model's lane, that the heads are those that the model computes with."""
    reader = finish(model.reader())
    from engine.models.proof import prove

    seen = reader.observe(model.check)
    layers = [layer for layer in model.outline.attending_layers if only in (None, layer.name)]
    for done, layer in enumerate(layers, start=1):
        module = model.source.anatomy.modules[layer.name]
        try:
            proof = prove(module, model.layer_weights(layer.name), seen[layer.name])
        except LayerLeftOut as error:
            nothing = Finding(None, math.nan, error.what)
            proof = LayerProof(layer.name, nothing, nothing)
        yield proof, Progress("checking", done, len(layers), "layers")


def proof_rows(proofs: Iterable[LayerProof]) -> Iterator[Row]:
    """Yield two rows a layer: the findings for what its heads write and for where they look."""
    for proof in proofs:
        for identity, finding in (("output", proof.output), ("scores", proof.scores)):
            yield (proof.layer.stack, proof.layer.layer, identity, finding.verdict, finding.residual, finding.note)


def proof_table(proofs: Iterable[LayerProof]) -> Table:
    """Make the table of a check."""
    return Table.of_rows("check", PROOF_COLUMNS, proof_rows(proofs))
