"""What runs on a GPU, on one that is only pretended: the numbers are the CPU's, and no operation mixes devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from engine.checkpoints.converted_tensors import ModuleTensors
from engine.mathematics import changes, circuits, composition, directions, spectra, subspaces
from engine.mathematics.factored_matrices import factor_matrices, product
from engine.mathematics.rotary import Rotation, rotate_keys
from engine.models import devices
from engine.models.interventions import HeldNorm
from engine.models.live_module import _in_main_memory
from engine.models.proof import rows_by_head
from engine.values.heads import MATRICES
from tests.pretended_gpu import DEVICE, PretendedGpu

D = 24


def drawn(*shape: int) -> Tensor:
    """Draw a tensor, the same for each shape."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def singular(matrix: Tensor) -> Tensor:
    """Let the last two rows of each matrix be the same, so that squaring does not resolve it."""
    made = matrix.clone()
    made[..., -1, :] = made[..., -2, :]
    return made


THIN = (drawn(4, 6, D), drawn(2, 6, D), drawn(2, 5, D), drawn(4, D, 5))
"""A layer whose heads are narrow, and share keys."""
DEPENDENT = (singular(THIN[0]), singular(THIN[1]), singular(THIN[2]), THIN[3])
WIDE = (drawn(2, D, 10), drawn(2, D, 10), drawn(2, D, 10), drawn(2, 10, D))
"""One whose heads have more rows than the model is wide, so that products are of full rank."""
LAYERS = {"thin": THIN, "dependent": DEPENDENT, "wide": WIDE, "bfloat16": tuple(each.bfloat16() for each in THIN)}


def whole(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> list[Tensor]:
    """Compute a whole layer's six matrices."""
    return [spectra.layer_singular_values(each, query, key, value, output) for each in MATRICES]


def compositions(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> list[Tensor]:
    """Compute compositions of all kinds."""
    written = composition.writing(value, output)
    return [composition.composition(written, each) for each in composition.reading(query, key, value, output).values()]


def measures(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> list[float]:
    """Measure circuits of heads and of the layer."""
    tolerance = {"QK": 1e-6, "OV": 1e-6}
    rows = []
    for made, count, of_heads in (
        (circuits.factor_heads((query, key, value, output)), len(query), True),
        (circuits.factor_layer((query, key, value, output)), 1, False),
    ):
        frame = circuits.Frame(frozenset(tolerance), tolerance, of_heads, ("QK", "OV"))
        ranks = {matrix: np.full(count, 4) for matrix in MATRICES}
        rows += circuits.measure_circuits(made, ranks, np.zeros(count), frame)
    return [value for row in rows for value in row.values()]


def directions_of(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> list[Tensor]:
    """Decompose a circuit into directions, and project embeddings on them."""
    factors = (factor_matrices(each) for each in (value.repeat_interleave(len(output) // len(value), 0), output.mT))
    left, sigma, right = product(*factors).singular_triples()
    left, right = directions.fix_signs(left, right)
    gain = query[0, 0]
    table = key.flatten(0, 1)
    chance = directions.chance_projections(table, 3, lambda: None, gain, draws=4)
    return [sigma, directions.projections(table, left[0], gain).abs(), chance]


def changed(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> list[Tensor]:
    """Compare a layer with another."""
    other = query + 0.1 * query.flip(0)
    return [
        changes.distance((query,), (other,)),
        changes.unrelated_distance((query,), (other,)),
        changes.distance((query[:2], key), (other[:2], key)),
        subspaces.principal_angles(factor_matrices(query).basis, factor_matrices(other).basis),
    ]


def rotated(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """Turn keys, with frequencies that are where they are."""
    return rotate_keys(key, Rotation(torch.tensor([1.0, 0.1], dtype=torch.float64).to(key.device), True), 3)


def smallest(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> list[Any]:
    """Find the smallest singular values of a square, and what belongs to them."""
    square = query.flatten(0, 1)
    found = spectra.smallest_singular_spaces(square, 2)
    assert found is not None
    return [spectra.smallest_singular_values(square, 2), *(each @ each.mT for each in found)]


WORK: dict[str, tuple[str, Callable[..., Any]]] = {
    **{f"heads, {name}": (name, spectra.head_singular_values) for name in LAYERS},
    **{f"whole layer, {name}": (name, whole) for name in LAYERS},
    "compositions": ("thin", compositions),
    "measures": ("thin", measures),
    "measures of dependent rows": ("dependent", measures),
    "measures of wide heads": ("wide", measures),
    "directions": ("thin", directions_of),
    "changes": ("thin", changed),
    "rotations": ("thin", rotated),
    "smallest values": ("thin", smallest),
}


@pytest.mark.parametrize("work", WORK)
def test_mathematics_stays_on_the_device_it_is_given(work: str) -> None:
    layer, compute = WORK[work]
    factors = LAYERS[layer]
    expected = compute(*factors)
    with PretendedGpu() as gpu:
        found = compute(*(factor.to(DEVICE) for factor in factors))
        found = tree_map(lambda each: each.cpu() if isinstance(each, Tensor) else each, found)
    assert gpu.operations > 5
    for mine, theirs in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "mixed",
    [
        lambda given: given - torch.eye(D, dtype=given.dtype),
        lambda given: torch.cat([given, torch.zeros(1, D, dtype=given.dtype)]),
        lambda given: given.index_select(0, torch.tensor([1])),
        lambda given: torch.zeros(D, D)[given > 0],
        lambda given: given.new_empty(2).normal_(generator=torch.Generator()),
        lambda given: given.numpy(),
    ],
)
def test_what_a_gpu_would_refuse_is_refused(mixed: Callable[[Tensor], object]) -> None:
    with PretendedGpu():
        given = drawn(D, D).to(DEVICE)
        with pytest.raises((RuntimeError, AssertionError)):
            mixed(given)
        assert float((given + torch.tensor(1.0)).sum()), "a single number in main memory may stand beside"
        assert given[torch.tensor([0, 2])].shape == (2, D), "and places in main memory be those of a tensor"


def test_a_mix_that_is_planted_in_the_mathematics_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    eye = torch.eye
    monkeypatch.setattr(torch, "eye", lambda size, dtype=None, **_: eye(size, dtype=dtype))
    with pytest.raises(RuntimeError, match="same device"):
        test_mathematics_stays_on_the_device_it_is_given("measures")


@pytest.mark.parametrize("has_float64", [True, False])
def test_what_a_model_did_is_looked_at_in_the_widest_type_of_its_device(
    has_float64: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_float64:
        monkeypatch.setattr(devices, "WITHOUT_FLOAT64", {DEVICE})
    assert devices.spectra_device(DEVICE) == (DEVICE if has_float64 else "cpu")
    read, weight, bias = drawn(2, 5, D).float(), drawn(3, 4, D).float(), drawn(3, 4).float()
    norm = nn.LayerNorm(D)
    written = norm(read[0, :1]).detach()
    held = HeldNorm.of(norm, read[0, :1], written)
    assert held is not None
    expected = rows_by_head(read, weight, bias), held(read[0])
    with PretendedGpu(has_float64):
        there = read.to(DEVICE)
        gain, offset = norm.weight.detach().to(DEVICE), norm.bias.detach().to(DEVICE)
        normed = partial(nn.functional.layer_norm, normalized_shape=(D,), weight=gain, bias=offset)
        norm_there: Any = SimpleNamespace(forward=normed)
        held = HeldNorm.of(norm_there, there[0, :1], written.to(DEVICE))
        assert held is not None
        found = [each.cpu() for each in (rows_by_head(there, weight, bias), held(there[0]))]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == (torch.float64 if has_float64 else torch.float32)
        np.testing.assert_allclose(mine.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)


def test_a_modules_weights_are_read_into_main_memory() -> None:
    with PretendedGpu():
        there = drawn(3, 2).to(DEVICE)
        module: Any = SimpleNamespace(state_dict=lambda: {"weight": there})
        stored = ModuleTensors(module)
        taken = _in_main_memory(lambda: there)
        for found in (stored.read("weight"), *stored.parts("weight"), taken):
            np.testing.assert_array_equal(found.reshape(3, 2).numpy(), drawn(3, 2).numpy())


@pytest.mark.parametrize("places", [[4], [0, -3]])
def test_a_row_that_an_embedding_lacks_is_refused_before_a_gpu_looks_it_up(places: list[int]) -> None:
    with PretendedGpu(), devices.CheckedLookups():
        table = torch.zeros(4, 3).to(DEVICE)
        assert nn.functional.embedding(torch.tensor([3, 0]).to(DEVICE), table).shape == (2, 3)
        with pytest.raises(IndexError, match=rf"row {places[-1]} of an embedding of 4 rows"):
            nn.functional.embedding(torch.tensor(places).to(DEVICE), table)
