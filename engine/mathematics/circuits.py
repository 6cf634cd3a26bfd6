"""Circuits as maps of the residual stream: how symmetric, how near the identity, how copying, and how they compose.

``M = QK = W_Qᵀ W_K`` scores a query against a key, and ``OV = W_Vᵀ W_Oᵀ`` says what is written for what is read
(Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"). `measure_circuits` computes all numbers of
the ``circuits`` table for a batch of heads, or for a whole layer, and `circuit_chance` those of Gaussian factors. A
measure is one number per product, NaN for a product that is zero.

Circuits from a space to itself have eigenvalues, and need not be symmetric. LAPACK triangulates M by orthogonal
similarities, so its results are the exact eigenvalues of a matrix that differs from M by rounding (Golub & Van Loan,
Matrix Computations, 7.5). In float32 that takes a third of the time, and a share of all eigenvalues (`copying_score`)
changes in its seventh digit, unless M is so far from normal that eigenvalues move by far more than M (Trefethen &
Embree, Spectra and Pseudospectra, 2005). To find out, M is solved a second time with noise of several roundings added;
if the shares change, it is solved in float64.

A head of an earlier layer writes by its OV₁. A head of a later layer may read that in three ways, and in each the
composition (Elhage et al. 2021) is ``‖AB‖_F / (‖A‖_F ‖B‖_F)``, between 0 and 1:

* Q: as its query, ``‖OV₁ · QK₂‖``
* K: as its key, ``‖OV₁ · QK₂ᵀ‖``
* V: as its value, ``‖OV₁ · OV₂‖``

With ``W_V W_Vᵀ = L Lᵀ``, the matrix ``Lᵀ W_Oᵀ`` writes the same as OV₁, and what reads is reduced likewise. Every
composition is then the norm of ``A Bᵀ``, where A and B have ``head_dim`` rows. A layer's heads become
``heads · head_dim`` rows that write and as many that read, so one matrix product compares all pairs of heads of two
layers. Chance is ``1/√d``, the root mean square for unrelated heads: if one of them is rotated at random,
``E ‖AB‖_F² = ‖A‖_F² ‖B‖_F² / d`` exactly, whatever their singular values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.mathematics.chance import WIDEST, chance_of, gaussian_pair, inner_rows
from engine.mathematics.distances import (
    angle_columns,
    angles,
    cosines,
    count_lost,
    image_in_head,
    image_in_kernel,
    images,
    random_cosines,
    symmetric_rank,
)
from engine.mathematics.factored_matrices import FactoredMatrix, FactoredProduct, factor_matrices, product, root
from engine.mathematics.measures import numerical_rank
from engine.mathematics.spectra import layer_factors
from engine.mathematics.threads import run_in_rounds
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline
from engine.values.progress import Work, finish

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FACTORS_OF = {"QK": ("K", "Q"), "OV": ("V", "O")}
"""By circuit, the factor that fills the head's own dimensions and the one that may drop some of them."""

SPECTRA = {
    "QK": ("qk_positive_mass", "qk_negative_mass"),
    "OV": ("ov_copying_residual",),
    "tokens": ("ov_copying",),
}
"""The measures of the eigenvalues of QK, of OV, and of OV from tokens to tokens."""

WIDE = 512
"""The size from which float32 is tried first; smaller problems are quick anyway."""

NOISE = 32.0
"""Roundings of float32 added to each element, as a root mean square: more than the solver itself makes."""

FLOAT32_MOVE = 1e-6
"""By how much the shares may then differ. A cycle or a nilpotent part of k steps spreads eigenvalues to rings of radius
``ε^(1/k)``; the noise changes the radius by a share of about 2/k, and float64 would change it by about 20/k. So an
error that goes unnoticed, of a part that weighs little, is in the fifth digit."""

FLOAT64_MOVE = 2e-6
"""By how much they may differ in float64; beyond it, as for long chains, not even three digits are known."""

LayerFactors = tuple[Tensor, Tensor, Tensor, Tensor]
Numbers = dict[str, float]


def trace_measures(small: Tensor, squared_norm: Tensor, d: int) -> Numbers:
    """Measure how symmetric maps M are, and how near the identity; the mean over a batch, NaN for one that is zero.

    * symmetry: ``tr(M²) / ‖M‖_F²``, 1 for a symmetric M and −1 for an antisymmetric one: with S and A the symmetric and
      the antisymmetric part, ``(‖S‖² − ‖A‖²) / (‖S‖² + ‖A‖²)``. Their energies are shares of ``‖M‖_F²``.
    * distance from the identity: ``min_c ‖M − c·1‖_F / ‖M‖_F = √(1 − tr(M)² / (d ‖M‖_F²))``, 0 for a multiple of the
      identity; a matrix of rank r is at least ``√(1 − r/d)`` away (`identity_floor`). It is also measured for the
      symmetric part, which alone has a trace; NaN if that part is zero.

    ``small`` (batch, k, k), B, has M's non-zero eigenvalues, so ``tr(M²) = Σ B ∘ Bᵀ``; d is the size of M.
    """
    trace, of_square = small.diagonal(dim1=-2, dim2=-1).sum(-1), (small * small.mT).sum((-2, -1))
    symmetry, of_symmetric = of_square / squared_norm, (squared_norm + of_square) / 2.0
    is_none = of_symmetric <= torch.finfo(of_symmetric.dtype).eps * squared_norm
    apart, symmetric_apart = (1.0 - trace**2 / (d * each) for each in (squared_norm, of_symmetric))
    found = {
        "qk_symmetry": symmetry,
        "qk_identity_distance": apart.clamp_min(0.0).sqrt(),
        "qk_symmetric_energy": (1.0 + symmetry) / 2.0,
        "qk_antisymmetric_energy": (1.0 - symmetry) / 2.0,
        "qk_symmetric_identity_distance": symmetric_apart.clamp(0.0, 1.0).sqrt().masked_fill(is_none, torch.nan),
    }
    return {name: float(values.mean()) for name, values in found.items()}


def identity_floor(rank: float, d: int) -> float:
    """Compute ``√(1 − rank/d)``, the least distance from the identity: ``tr(M)² ≤ rank · ‖M‖_F²`` (Cauchy–Schwarz)."""
    return float((1.0 - min(rank, d) / d) ** 0.5)


def eigenvalues(squares: Tensor) -> Tensor:
    """Compute the eigenvalues of matrices (batch, k, k) float64, in no order: (batch, k) complex128.

    From `WIDE` on they are computed in float32, unless that proves too coarse. NaN if float64 is too coarse as well,
    or if the matrix holds numbers that are not finite, for which LAPACK makes up results or ends the process.
    """
    found = torch.full(squares.shape[:-1], torch.nan, dtype=torch.complex128)
    left = squares.isfinite().flatten(1).all(1)
    for place in left.nonzero()[:, 0].tolist() if squares.shape[-1] >= WIDE else ():
        size = squares[place].norm()
        solved, moved, _ = _solve_with_noise((squares[place] / size).float()) if float(size) else (0.0 * size, 0.0, 0.0)
        if float(moved) < FLOAT32_MOVE:
            found[place], left[place] = solved * size, False
    if bool(left.any()):
        solved, moved, grown = _solve_with_noise(squares[left])
        found[left] = solved.masked_fill((torch.maximum(moved, grown) > FLOAT64_MOVE)[..., None], torch.nan)
    return found


def _solve_with_noise(squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Solve matrices (..., k, k); return also how far noise moves the shares of both signs, and ``Σ|λ|``."""
    k = squares.shape[-1]
    noise = torch.randn((k, k), generator=torch.Generator().manual_seed(0)).to(squares) / k
    size = NOISE * torch.finfo(squares.dtype).eps * squares.flatten(-2).norm(dim=-1)
    pieces = [partial(torch.linalg.eigvals, each) for each in (squares, squares + size[..., None, None] * noise)]
    found, noisy = (each.to(torch.complex128) for each in finish(run_in_rounds(pieces)))
    moved = [(positive_mass(sign * found) - positive_mass(sign * noisy)).abs() for sign in (1, -1)]
    return found, torch.maximum(*moved), (1.0 - noisy.abs().sum(-1) / found.abs().sum(-1)).abs()


def copying_score(found: Tensor) -> Tensor:
    """Compute ``Σλ / Σ|λ|`` over eigenvalues (..., r): 1 if everything read is written unchanged, −1 if it is negated.

    Elhage et al. 2021, for the eigenvalues of ``W_E · OV · W_U``, tokens to tokens.
    """
    total: Tensor = found.abs().sum(-1)
    summed: Tensor = found.real.sum(-1)
    return summed / total


def positive_mass(found: Tensor) -> Tensor:
    """Compute ``Σ max(Re λ, 0) / Σ|λ|`` over eigenvalues (..., r); the negative mass is that of −λ."""
    positive: Tensor = found.real.clamp_min(0.0).sum(-1)
    return positive / found.abs().sum(-1)


@dataclass(frozen=True)
class Circuits:
    """The factored projections and circuits of a batch of heads, or of one whole layer.

    Attributes
    ----------
    factors : by projection, the factored W_Q, W_K, W_V and W_Oᵀ; each one's basis spans what it reads (W_O: writes).
    own : W_Q and W_Oᵀ as the circuits use them: heads that share keys are summed.
    """

    factors: Mapping[str, FactoredMatrix]
    own: tuple[FactoredMatrix, FactoredMatrix]

    @cached_property
    def qk(self) -> FactoredProduct:
        """Multiply ``W_Qᵀ W_K``."""
        return product(self.own[0], self.factors["K"])

    @cached_property
    def ov(self) -> FactoredProduct:
        """Multiply ``W_Vᵀ W_Oᵀ``."""
        return product(self.factors["V"], self.own[1])


def factor_heads(factors: LayerFactors) -> Circuits:
    """Factor a layer's heads: W_Q (heads, r, d), W_K and W_V (key_value_heads, r, d), and W_O (heads, d, r)."""
    query, key, value, output = factors
    group = len(query) // len(key)
    split = {
        "Q": factor_matrices(query),
        "K": factor_matrices(key).repeat(group),
        "V": factor_matrices(value).repeat(group),
        "O": factor_matrices(output.mT),
    }
    return Circuits(split, (split["Q"], split["O"]))


def factor_layer(factors: LayerFactors) -> Circuits:
    """Factor a whole layer: projections of all heads stacked, circuits summed over the heads."""
    split = {name: factor_matrices(*layer_factors(name, *factors)) for name in "QKVO"}
    if len(factors[0]) == len(factors[1]):
        return Circuits(split, (split["Q"], split["O"]))
    queries, outputs = (factor_matrices(layer_factors(circuit, *factors)[0]) for circuit in ("QK", "OV"))
    return Circuits(split, (queries, outputs))


@dataclass(frozen=True)
class CircuitSettings:
    """What the measures of a layer depend on besides its weights.

    Attributes
    ----------
    compared : the circuits that map a space to itself; measures that compare both sides exist for these alone.
    tolerance : by circuit, the cosine below which a direction counts as orthogonal (`measures.cosine_noise`).
    of_heads : whether single heads are measured; the circuit of a whole layer whose heads share keys is no product.
    spectra : which of `SPECTRA` to compute; slow for wide layers.
    token_map : (d, d) float64 ``W_Uᵀ W_E``, if there is one.
    """

    compared: frozenset[str]
    tolerance: Mapping[str, float]
    of_heads: bool
    spectra: tuple[str, ...] = ()
    token_map: Tensor | None = None


def measure_circuits(
    circuits: Circuits,
    ranks: Mapping[str, NDArray[np.int64]],
    noise: NDArray[np.float64],
    settings: CircuitSettings,
    step: Callable[[int], None] = lambda units: None,
) -> Work[list[Numbers]]:
    """Measure a batch of heads, or one whole layer, by column; what is not defined is left out or NaN.

    A layer's eigenvalues take longer than everything else, so each of these problems is a unit of work.

    Parameters
    ----------
    ranks : by matrix, (batch,) the numerical ranks.
    noise : (batch,) of QK: singular values up to it do not count.
    step : called before each unit with the number of units.
    """
    batch: dict[str, Tensor] = {}
    for kind in settings.spectra:
        yield None
        step(len(settings.spectra) + 1)
        batch |= _eigenvalue_measures(circuits, settings, kind)
    yield None
    step(len(settings.spectra) + 1)
    rows: list[Numbers] = []
    for place in range(len(ranks["QK"])):
        own = {matrix: int(values[place]) for matrix, values in ranks.items()}
        row = {name: float(values[place]) for name, values in batch.items()}
        row |= {f"rank_{matrix.lower()}": rank for matrix, rank in own.items()}
        for name in FACTORS_OF:
            row |= _measure_circuit(name, circuits, slice(place, place + 1), own, float(noise[place]), settings)
            if row.get(f"{name.lower()}_image_in_kernel") == own[name]:  # M² is 0, and the shares are rounding
                row |= dict.fromkeys(row.keys() & SPECTRA[name], math.nan)
        rows.append(row)
    return rows


def _measure_circuit(
    name: str, circuits: Circuits, one: slice, ranks: Mapping[str, int], noise: float, settings: CircuitSettings
) -> Numbers:
    fills, drops = FACTORS_OF[name]
    prefix, rank, tolerance = name.lower(), ranks[name], settings.tolerance[name]
    filled, dropped = circuits.factors[fills][one], circuits.factors[drops][one]
    found: Numbers = {}
    found[f"{prefix}_factors_lost"] = (
        _factors_lost(filled, ranks[fills], dropped, ranks[drops], tolerance)
        if settings.of_heads
        else max(ranks[fills] - rank, 0)  # the same dimension, from ranks that are known
    )
    if name not in settings.compared:
        return found
    d = filled.basis.shape[-2]
    found[f"{prefix}_image_in_kernel"] = (
        image_in_kernel((circuits.qk if name == "QK" else circuits.ov)[one], rank, tolerance)
        if rank < d
        else 0  # without forming the product
    )
    found |= angle_columns(name, angles(cosines(*images(filled, ranks[fills], dropped, ranks[drops]))))
    if name == "QK":
        qk = circuits.qk[one]
        found |= trace_measures(qk.eigenvalue_core(), qk.squared_norm, d)
        found["qk_identity_floor"] = identity_floor(rank, d)
        found["qk_symmetric_identity_floor"] = identity_floor(symmetric_rank(qk, rank, noise), d)
    return found


def spectra_of(compared: frozenset[str], has_tokens: bool) -> tuple[str, ...]:
    """List those of `SPECTRA` that are defined, given the circuits that map a space to itself."""
    return tuple(kind for kind in SPECTRA if (has_tokens if kind == "tokens" else kind in compared))


def _eigenvalue_measures(circuits: Circuits, settings: CircuitSettings, kind: str) -> dict[str, Tensor]:
    """Measure the eigenvalues of one of the spectra: (batch,) each.

    If nothing that a head writes reaches a token, what remains is rounding and counts as zero.
    """
    if kind == "QK":
        found = eigenvalues(circuits.qk.eigenvalue_core())
        return dict(zip(SPECTRA[kind], (positive_mass(found), positive_mass(-found)), strict=True))
    small = circuits.ov.eigenvalue_core(settings.token_map if kind == "tokens" else None)
    if kind == "tokens" and settings.token_map is not None:
        mean_gain = float(settings.token_map.norm()) / len(settings.token_map) ** 0.5
        heard = small.flatten(1).norm(dim=1) > settings.tolerance["OV"] * mean_gain * circuits.ov.squared_norm.sqrt()
        small = small * heard[:, None, None]
    return dict.fromkeys(SPECTRA[kind], copying_score(eigenvalues(small)))


def _factors_lost(
    filled: FactoredMatrix, filled_rank: int, dropped: FactoredMatrix, dropped_rank: int, tolerance: float
) -> int:
    """Count the head's own dimensions that one factor of a circuit fills and the other drops.

    For QK ``dim(im W_K ∩ ker W_Qᵀ)``, for OV ``dim(im W_V ∩ ker W_O)``; 0 if the factor that drops has full rank.
    """
    if dropped_rank == dropped.triangle.shape[-1]:
        return 0
    return count_lost(image_in_head(filled, filled_rank), image_in_head(dropped, dropped_rank), tolerance)


def chance_ranks(layer: LayerOutline, whole_layer: bool, noises: Mapping[str, float]) -> Numbers:
    """Average by matrix the numerical ranks of Gaussian factors of norm one; singular values count above ``noises``."""
    draws = chance_of(layer, whole_layer, noises)
    shapes = {matrix: layer.shape(matrix, whole_layer) for matrix in MATRICES}
    inner = inner_rows(layer, whole_layer)
    ranks = {matrix: float(min(*shape, inner.get(matrix, shape[0]))) for matrix, shape in shapes.items()}
    return ranks | {matrix: float(numerical_rank(draws[matrix], noise).mean()) for matrix, noise in noises.items()}


def circuit_chance(layer: LayerOutline, ranks: Mapping[str, float], settings: CircuitSettings) -> Numbers:
    """Compute the means of all measures over Gaussian factors of `chance_ranks`, for circuits that are compared.

    Some are known exactly. The symmetry is 1/d, as for any W_Q rotated at random against W_K. Copying is zero, since a
    head with W_O negated is as probable. A random subspace of dimension l holds l/d of any direction's square. Random
    subspaces meet in no more dimensions than they must. Angles are those between subspaces whose dimensions are the
    ranks of Gaussian factors stored as coarsely as the head's. The other measures do not change when the residual
    stream is rotated, so they are those of small cores (`gaussian_pair`), exactly in distribution up to `WIDEST`. In
    wider streams, where they hardly vary, eigenvalues and angles come from factors whose widths are all reduced by one
    ratio, and the distances from the identity from ``E tr(M)² = ‖M‖² / d``.
    """
    d, widths = layer.d_model, {"QK": layer.d_model, "OV": layer.d_values}
    inner = inner_rows(layer, not settings.of_heads)["QK"]
    counted = {matrix: round(rank) for matrix, rank in ranks.items()}
    found = {f"rank_{matrix.lower()}": rank for matrix, rank in ranks.items()}
    for name, (fills, drops) in FACTORS_OF.items():
        prefix = name.lower()
        dropping = ranks[drops] if settings.of_heads else ranks[name]
        found[f"{prefix}_factors_lost"] = max(ranks[fills] - dropping, 0.0)
        if name in settings.compared:
            found |= angle_columns(name, angles(random_cosines(counted[fills], counted[drops], widths[name])))
            found[f"{prefix}_overlap"] = max(ranks[fills], ranks[drops]) / widths[name]
            met = random_cosines(counted[name], counted[name], widths[name])
            found[f"{prefix}_image_in_kernel"] = float((met <= settings.tolerance[name]).sum(-1).double().mean())
    if "QK" in settings.compared:
        found |= _traces_by_chance(inner, d)
        found["qk_symmetry"], found["qk_symmetric_energy"] = 1.0 / d, (1.0 + 1.0 / d) / 2.0
        found["qk_antisymmetric_energy"] = 1.0 - found["qk_symmetric_energy"]
        found["qk_identity_floor"] = identity_floor(ranks["QK"], d)
        found["qk_symmetric_identity_floor"] = identity_floor(2 * ranks["QK"], d)
    for kind in settings.spectra:
        found |= dict.fromkeys(SPECTRA[kind], mass_chance(inner, d) if kind == "QK" else 0.0)
    return found


def mass_chance(r: int, d: int) -> float:
    """Average `positive_mass` over Gaussian products ``W_Qᵀ W_K`` of (r, d) factors; −λ has the same mean."""
    query, key = map(torch.from_numpy, gaussian_pair(r, r, d))
    small = query.mT @ key if query.shape[-1] <= query.shape[-2] else key @ query.mT
    found = torch.linalg.eigvals(small.float())
    return float((positive_mass(found) + positive_mass(-found)).mean() / 2.0)


def _traces_by_chance(r: int, d: int) -> Numbers:
    """Average distances from the identity over Gaussian products ``W_Qᵀ W_K`` of (r, d) factors."""
    if min(2 * r, d) > WIDEST:
        return {
            "qk_identity_distance": math.sqrt(1.0 - d**-2),
            "qk_symmetric_identity_distance": math.sqrt(1.0 - 2.0 / (d**2 + d)),
        }
    query, key = map(torch.from_numpy, gaussian_pair(r, r, d))
    return trace_measures(key @ query.mT, ((query @ query.mT) * (key @ key.mT)).sum((-2, -1)), d)


KINDS = ("Q", "K", "V")
"""The ways in which a head can read what another has written."""


def rows_written(value: Tensor, output: Tensor) -> Tensor:
    """Reduce what heads write to rows A (heads, k, d_output) float64 with ``AᵀA = OVᵀ OV / ‖OV‖²``.

    W_V is (key_value_heads, s, d_values), W_O (heads, d_output, s), k at most s. A head of zeros becomes NaN.
    """
    return _unit(root(value).repeat_interleave(len(output) // len(value), 0).mT @ output.mT.double())


def rows_read(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> dict[str, Tensor]:
    """Reduce what heads read to rows B of norm one, by kind: ``BᵀB = C Cᵀ / ‖C‖²`` for the circuit C that reads.

    W_Q (heads, r, d_model), W_K and W_V (key_value_heads, r, d) and W_O (heads, d_output, s) give (heads, k, d)
    float64. A head of zeros becomes NaN.
    """
    group = len(query) // len(key)
    return {
        "Q": _unit(root(key).repeat_interleave(group, 0).mT @ query.double()),
        "K": _unit(root(query).mT @ key.double().repeat_interleave(group, 0)),
        "V": _unit(root(output.mT).mT @ value.double().repeat_interleave(group, 0)),
    }


def _unit(rows: Tensor) -> Tensor:
    unit: Tensor = rows / torch.linalg.matrix_norm(rows)[:, None, None]
    return unit


def composition(written: Tensor, read: Tensor) -> Tensor:
    """Compose what heads write (heads, k, d) with what others read (others, l, d): (heads, others)."""
    heads, k, d = written.shape
    others, width, _ = read.shape
    met = written.reshape(heads * k, d) @ read.reshape(others * width, d).mT
    norms: Tensor = torch.linalg.vector_norm(met.view(heads, k, others, width), dim=(1, 3))
    return norms
