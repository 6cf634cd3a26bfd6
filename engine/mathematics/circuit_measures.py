"""All circuit measures of a batch of heads, or of a layer as a whole, at once: the ``circuits`` table's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.mathematics.circuits import Traces, copying, identity_floor, negative_mass, positive_mass, traces
from engine.mathematics.eigenvalues import eigenvalues
from engine.mathematics.factored import Product, Thin, product, thin
from engine.mathematics.subspaces import (
    angles,
    cosines,
    image,
    image_in_head,
    image_in_kernel,
    lost,
    overlap,
    symmetric_rank,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SPECTRA = {
    "QK": ("qk_positive_mass", "qk_negative_mass"),
    "OV": ("ov_copying_residual",),
    "tokens": ("ov_copying",),
}
"""What is measured of the eigenvalues of QK, of OV, and of OV from tokens to tokens."""

Factors = tuple[Tensor, Tensor, Tensor, Tensor]
Numbers = dict[str, float]


@dataclass(frozen=True)
class Circuits:
    """The factored projections and circuits of a batch of heads, or of one layer as a whole.

    Attributes
    ----------
    factors : by projection, the split of W_Q, W_K, W_V and of W_Oᵀ; each one's basis spans what it reads (W_O: writes).
    own : those of W_Q and W_Oᵀ that the circuits are made with; heads that share keys have been added up.
    """

    factors: Mapping[str, Thin]
    own: tuple[Thin, Thin]

    @cached_property
    def qk(self) -> Product:
        """Multiply ``W_Qᵀ W_K``."""
        return product(self.own[0], self.factors["K"])

    @cached_property
    def ov(self) -> Product:
        """Multiply ``W_Vᵀ W_Oᵀ``."""
        return product(self.factors["V"], self.own[1])

    @property
    def batch(self) -> int:
        """Count the heads."""
        return len(self.own[0].basis)


def of_heads(factors: Factors) -> Circuits:
    """Factor a layer's heads.

    Parameters
    ----------
    factors : query (heads, r, d_model), key (key_value_heads, r, d_source), value (key_value_heads, s, d_values) and
        output (heads, d_output, s).
    """
    query, key, value, output = factors
    group = len(query) // len(key)
    split = {
        "Q": thin(query), "K": thin(key).repeated(group), "V": thin(value).repeated(group), "O": thin(output.mT),
    }  # fmt: skip
    return Circuits(split, (split["Q"], split["O"]))


def summed(part: Tensor, shared: int) -> Tensor:
    """Add up what heads have that share a key/value head: (shared, ...) float64, never all heads at once in it."""
    return torch.stack([heads.double().sum(0) for heads in part.split(len(part) // shared)])


def of_layer(factors: Factors, left_out: frozenset[str] = frozenset()) -> Circuits:
    """Factor a layer as a whole: projections of all heads stacked, circuits summed over the heads.

    Parameters
    ----------
    factors : shapes as above.
    left_out : those of W_Q and W_O that are too large to be factored by themselves; the circuits are made without.
    """
    query, key, value, output = factors
    group = len(query) // len(key)
    split = {
        name: thin(part.flatten(0, 1)[None])
        for name, part in (("Q", query), ("K", key), ("V", value), ("O", output.mT))
        if name not in left_out
    }
    if group == 1 and not left_out:
        return Circuits(split, (split["Q"], split["O"]))
    queries, outputs = (  # heads that share keys add up their queries first
        thin(summed(part, len(key)).flatten(0, 1)[None]) for part in (query, output.mT)
    )
    return Circuits(split, (queries, outputs))


@dataclass(frozen=True)
class Frame:
    """What the measures of a layer depend on beside its weights.

    Attributes
    ----------
    compared : the circuits (``QK``, ``OV``) whose two sides are the same space; of the others nothing is said that
        takes one side for the other.
    tolerance : by circuit, the cosine below which a direction counts as orthogonal (`measures.cosine_noise`).
    of_heads : whether it is heads that are measured. Where heads share keys a layer's circuit is no product of its
        stacked projections.
    spectra : those of `SPECTRA` whose eigenvalues are found, each of them defined here (see `spectra_of`); it takes
        long where layers are wide.
    token_map : (d, d) float64 ``W_Uᵀ W_E`` where OV leads from tokens to tokens.
    """

    compared: frozenset[str]
    tolerance: Mapping[str, float]
    of_heads: bool
    spectra: tuple[str, ...] = ()
    token_map: Tensor | None = None


def measure(
    circuits: Circuits, ranks: Mapping[str, NDArray[np.int64]], noise: NDArray[np.float64], frame: Frame
) -> list[Numbers]:
    """Measure a batch of heads, or one layer as a whole.

    Parameters
    ----------
    circuits : what is measured.
    ranks : by matrix, (batch,) the numerical ranks; none of what was left out of the factors.
    noise : (batch,) of QK: up to it singular values do not count.
    frame : what is defined here.

    Returns
    -------
    A dictionary of columns for each of the batch; what is not defined is left out, or NaN.
    """
    batch: dict[str, Tensor] = {}
    both = (("QK", "K", "Q"), ("OV", "V", "O"))
    if "QK" in frame.compared:
        batch |= _of_traces(traces(circuits.qk))
    for kind in frame.spectra:
        batch |= of_eigenvalues(kind, eigenvalues(reversed_circuit(circuits, frame, kind)))
    rows: list[Numbers] = [
        {name: float(values[place]) for name, values in batch.items()} for place in range(len(ranks["QK"]))
    ]
    for place, row in enumerate(rows):
        own = {matrix: int(values[place]) for matrix, values in ranks.items()}
        row |= {f"rank_{matrix.lower()}": rank for matrix, rank in own.items()}
        for name, fills, drops in both:
            filled, tolerance = circuits.factors[fills].of(place), frame.tolerance[name]
            dropped = circuits.factors[drops].of(place) if drops in circuits.factors else None
            row[f"{name.lower()}_factors_lost"] = (
                _factors_lost(filled, own[fills], dropped, own[drops], tolerance)
                if frame.of_heads and dropped is not None
                else max(own[fills] - own[name], 0)  # what the dimension follows from, which costs nothing here
            )
            if name in frame.compared:
                row[f"{name.lower()}_image_in_kernel"] = _in_kernel(circuits, name, place, own[name], tolerance)
                cosine = None
                if dropped is not None:
                    cosine = cosines(image(filled, own[fills]), image(dropped, own[drops]))
                    row |= _of_angles(name, cosine)
                if name == "QK":
                    row |= _floors(circuits.qk.of(slice(place, place + 1)), own[name], cosine, float(noise[place]))
        row |= shares_of_rounding(row)
    return rows


def _of_traces(found: Traces) -> dict[str, Tensor]:
    """List what follows from traces."""
    symmetric = found.symmetric_energy()
    return {
        "qk_symmetry": found.symmetry(),
        "qk_identity_distance": found.identity_distance(),
        "qk_symmetric_energy": symmetric,
        "qk_antisymmetric_energy": 1.0 - symmetric,
        "qk_symmetric_identity_distance": found.symmetric_identity_distance(),
    }


def spectra_of(compared: frozenset[str], has_tokens: bool) -> tuple[str, ...]:
    """List those of `SPECTRA` that are defined for circuits that lead to where they come from."""
    return tuple(kind for kind in SPECTRA if (has_tokens if kind == "tokens" else kind in compared))


def reversed_circuit(circuits: Circuits, frame: Frame, kind: str) -> Tensor:
    """Give small matrices (batch, k, k) with the eigenvalues of one of a frame's spectra.

    Where no token hears of what a head writes, rounding is all that is left on the way to them, and counts as zero.
    """
    if kind == "QK":
        return circuits.qk.reversed_core()
    small = circuits.ov.reversed_core(frame.token_map if kind == "tokens" else None)
    if kind == "tokens" and frame.token_map is not None:
        mean_gain = float(frame.token_map.norm()) / len(frame.token_map) ** 0.5
        heard = small.flatten(1).norm(dim=1) > frame.tolerance["OV"] * mean_gain * circuits.ov.squared_norm.sqrt()
        small = small * heard[:, None, None]
    return small


def of_eigenvalues(kind: str, found: Tensor) -> dict[str, Tensor]:
    """List what follows from the eigenvalues (batch, k) of one of `SPECTRA`: (batch,) each."""
    if kind == "QK":
        return dict(zip(SPECTRA[kind], (positive_mass(found), negative_mass(found)), strict=True))
    return dict.fromkeys(SPECTRA[kind], copying(found))


def shares_of_rounding(row: Numbers) -> Numbers:
    """Take back shares of eigenvalues that are mere rounding: M² = 0 where all of an image lies in the kernel."""
    return {
        name: math.nan
        for circuit in ("QK", "OV")
        for name in SPECTRA[circuit]
        if name in row and row.get(f"{circuit.lower()}_image_in_kernel") == row[f"rank_{circuit.lower()}"]
    }


def _in_kernel(circuits: Circuits, name: str, place: int, rank: int, tolerance: float) -> int:
    """Count the dimensions of a circuit's image that fall into its kernel; one of full rank need not be formed."""
    if rank == circuits.own[name == "OV"].basis.shape[-2]:
        return 0
    matrix = circuits.qk if name == "QK" else circuits.ov
    return image_in_kernel(matrix.of(slice(place, place + 1)), rank, tolerance)


def _floors(qk: Product, rank: int, cosine: Tensor | None, noise: float) -> Numbers:
    """Give how near to a multiple of the identity QK and its symmetric part can come with the ranks that they have.

    Without the cosines between what queries and keys read, nothing is known of the symmetric part.
    """
    d = qk.left.shape[-2]
    if cosine is None:
        return {"qk_identity_floor": identity_floor(rank, d)}
    of_symmetric = symmetric_rank(qk, rank, cosine, noise) if rank else 0
    return {
        "qk_identity_floor": identity_floor(rank, d),
        "qk_symmetric_identity_floor": identity_floor(of_symmetric, d),
    }


def _factors_lost(filled: Thin, filled_rank: int, dropped: Thin, dropped_rank: int, tolerance: float) -> int:
    """Count what one factor of a circuit drops of the other one's image, among the head's own dimensions.

    For QK it is ``dim(im W_K ∩ ker W_Qᵀ)``, for OV ``dim(im W_V ∩ ker W_O)``; both are zero where the factor that drops
    has full rank.
    """
    if dropped_rank == dropped.triangle.shape[-1]:
        return 0
    return lost(image_in_head(filled, filled_rank), image_in_head(dropped, dropped_rank), tolerance)


def _of_angles(name: str, cosine: Tensor) -> Numbers:
    """Summarise principal angles, in degrees."""
    if not cosine.numel():
        return {}
    degrees, prefix = angles(cosine), name.lower()
    return {
        f"{prefix}_angle_smallest": float(degrees.min()),
        f"{prefix}_angle_largest": float(degrees.max()),
        f"{prefix}_angle_mean": float(degrees.mean()),
        f"{prefix}_overlap": float(overlap(cosine)[0]),
    }


def exact_chance(d: int, ranks: Mapping[str, float]) -> Numbers:
    """Give what is known of Gaussian factors without drawing any, for circuits from a space of d dimensions to itself.

    Turning W_Q against W_K gives 1/d for the symmetry, whatever their singular values; turning W_O's sign leaves a head
    as probable, so copying is zero; a random subspace of dimension l holds l/d of any direction's square.
    """
    known = {
        "qk_symmetry": 1.0 / d,
        "qk_symmetric_energy": (1.0 + 1.0 / d) / 2.0,
        "qk_antisymmetric_energy": (1.0 - 1.0 / d) / 2.0,
        "ov_copying": 0.0,
        "ov_copying_residual": 0.0,
        "qk_overlap": max(ranks["Q"], ranks["K"]) / d,
        "ov_overlap": max(ranks["V"], ranks["O"]) / d,
    }
    return known | {f"rank_{matrix.lower()}": rank for matrix, rank in ranks.items()}
