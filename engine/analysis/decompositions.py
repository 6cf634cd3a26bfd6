"""Where singular values are computed: on the CPU pieces side by side, on a GPU one after the other.

A GPU that is short of memory, or whose solver gives a matrix up, is not asked again; the CPU does the work then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.architectures.heads import LayerWeights
from engine.mathematics.factored_matrices import factor_matrices
from engine.mathematics.rotary import Rotation, rotate_keys
from engine.mathematics.spectra import circuit_singular_values, layer_factors, singular_values
from engine.mathematics.threads import side_by_side
from engine.models.devices import choose_device, lacks_memory, spectra_device
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline
from engine.values.progress import Work
from engine.values.spectra import FloatArray

Factors = tuple[Tensor, Tensor, Tensor, Tensor]
Arrays = dict[str, FloatArray]
Piece = Callable[[str], Arrays]
"""Computes arrays by matrix on a device."""

PIECE = 2**21
"""Numbers of the factors that a piece of the heads' work takes up, some hundredths of a second of it."""

GLANCE = 256
"""Rows that are looked at at once for a number that is not zero; the first nearly always have one."""

NO_MEMORY = "there is too little free memory for this layer's spectra; close other programs"


class Decomposer:
    """Computes the singular values of heads and of whole layers.

    Parameters
    ----------
    wish : the device, as a person names it.
    notify : told in a sentence when a GPU is given up.

    Raises
    ------
    EngineError : when there is no such device.
    """

    def __init__(self, wish: str, notify: Callable[[str], None]) -> None:
        device = spectra_device(choose_device(wish))
        self._devices = {"heads": device, "whole layers": device}
        self._notify = notify
        if device != "cpu":  # torch loads a GPU's solver when it is first asked for, and two threads must not at once
            with suppress(RuntimeError):
                torch.linalg.eigvalsh(torch.eye(2, dtype=torch.float64, device=device))

    def heads(self, factors: Factors, matrices: Collection[str] = MATRICES) -> Work[Arrays]:
        """Compute the singular values of matrices of every head: by matrix, (heads, structural rank), largest first.

        Parameters
        ----------
        factors, matrices : as `engine.mathematics.spectra.head_singular_values` takes them.
        """
        query, key, value, output = factors
        pieces: list[Piece] = []
        for circuit, own, shared in (("QK", query, key), ("OV", output.mT, value)):
            if {circuit, *circuit}.isdisjoint(matrices):
                continue
            group = len(own) // len(shared)
            numbers = group * own[0].numel() + shared[0].numel()
            even = math.ceil(2 * len(shared) / torch.get_num_threads())
            step = max(1, min(PIECE // numbers, even))  # what shares a key/value head is computed together
            for part in zip(own.split(group * step), shared.split(step), strict=True):
                pieces.append(partial(_circuit, circuit, *part, matrices))
        found = yield from self._run("heads", pieces)
        known = [matrix for matrix in MATRICES if any(matrix in each for each in found)]
        return {matrix: np.concatenate([each[matrix] for each in found if matrix in each]) for matrix in known}

    def layer(self, made_of: Mapping[str, Sequence[Tensor]]) -> Work[Arrays]:
        """Compute the singular values of matrices of a whole layer: by matrix, (1, structural rank), largest first.

        Parameters
        ----------
        made_of : by matrix, its `engine.mathematics.spectra.layer_factors`.
        """
        order = sorted(made_of, key=len, reverse=True)  # products take longest
        pieces: list[Piece] = [partial(_matrix, matrix, made_of[matrix]) for matrix in order]
        found = yield from self._run("whole layers", pieces)
        return {matrix: values for each in found for matrix, values in each.items()}

    def _run(self, kind: str, pieces: Sequence[Piece]) -> Work[list[Arrays]]:
        """Run pieces on the device of this kind of work, and on the CPU from the first that fails there."""
        found: list[Arrays] = []
        while len(found) < len(pieces):
            yield None
            device = self._devices[kind]
            at_once = torch.get_num_threads() if device == "cpu" else 1
            try:
                found += side_by_side(pieces[len(found) :][:at_once], device)
                continue
            except RuntimeError as error:
                why = _why(error, device)
                if not why:
                    raise
            # The error is gone by now, and with it the tensors of where it was raised.
            if device == "cpu":
                raise EngineError(NO_MEMORY)
            with suppress(RuntimeError):  # a device that failed once may fail at whatever it is asked
                torch.cuda.empty_cache()
            self._devices[kind] = "cpu"
            self._notify(f"{device} {why}; spectra of {kind} are computed on the CPU")
        return found


def _circuit(circuit: str, own: Tensor, shared: Tensor, matrices: Collection[str], device: str) -> Arrays:
    found = circuit_singular_values(circuit, own.to(device), shared.to(device), matrices)
    return {matrix: values.numpy() for matrix, values in found.items()}


def _matrix(matrix: str, factors: Sequence[Tensor], device: str) -> Arrays:
    """Compute one matrix of a whole layer; zeros, as of what is pruned or a hole in a file, are no work."""
    if not all(any(bool(rows.any()) for rows in factor.split(GLANCE, -2)) for factor in factors):
        ranks = (min(factor.shape[-2:]) for factor in factors)
        return {matrix: torch.zeros(1, min(ranks), dtype=torch.float64).numpy()}
    return {matrix: singular_values([factor.to(device) for factor in factors]).numpy()}


def _why(error: RuntimeError, device: str) -> str:
    """Say why a device is given up; nothing where it is not the device that failed."""
    if lacks_memory(error):
        return "has too little free memory"
    gave_up: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]  # a documented name
    said = str(error).partition("\n")[0]
    if device == "cpu":
        return ""
    if isinstance(error, gave_up) or "cusolver error" in said:
        return "cannot decompose such matrices"
    return f"fails ({said})" if isinstance(error, torch.AcceleratorError) or "CUDA error" in said else ""


class SpectraAtDistance:
    """What QK's spectra at any distance between query and key are computed from, one distance after the other.

    With ``W_Qᵀ = A T`` and ``W_Kᵀ = B S``, A and B of orthonormal columns, ``W_Qᵀ R W_K = A · T R Sᵀ · Bᵀ``: whatever
    the distance is, the bases stay, and only a core of head_dim × head_dim is made anew. What an adapter changes of QK,
    ``[Δ_Q; W_Q]ᵀ [W_K'; Δ_K]``, is rotated likewise, each half of its rows by itself.

    Parameters
    ----------
    layer : which.
    weights : its factors of QK.
    rotation : how its keys are rotated by their positions.

    Attributes
    ----------
    layer : its name.
    """

    def __init__(self, layer: LayerOutline, weights: LayerWeights, rotation: Rotation) -> None:
        self.layer = layer.name
        self._rotation = rotation
        self._head_dim = layer.head_dim
        self._weights = weights
        self._triangles: dict[int, tuple[Tensor, Tensor]] = {}

    def _rotated(self, rows: Tensor, distance: int) -> Tensor:
        """Rotate rows of W_K, (heads, n · head_dim, …), of which each head_dim are rotated by themselves."""
        by_part = rows.reshape(-1, self._head_dim, rows.shape[-1])
        return rotate_keys(by_part, self._rotation, distance).reshape(rows.shape)

    def of_heads(self, numbers: Sequence[int], distance: int) -> FloatArray:
        """Compute QK's singular values of some heads, (heads, rank), largest first."""
        missing = [number for number in numbers if number not in self._triangles]
        if missing:
            shared = [number // self._weights.group for number in missing]
            query, key = (
                factor_matrices(each).triangle for each in (self._weights.query[missing], self._weights.key[shared])
            )
            self._triangles |= {number: (query[place], key[place]) for place, number in enumerate(missing)}
        query, key = (torch.stack([self._triangles[number][side] for number in numbers]) for side in (0, 1))
        values: FloatArray = torch.linalg.svdvals(query @ self._rotated(key.mT, distance)).numpy()
        return values

    def layer_factors(self, distance: int) -> tuple[Tensor, ...]:
        """Give what the sum of the heads' QK is made of, for `engine.mathematics.spectra.singular_values`."""
        weights = self._weights
        return layer_factors("QK", weights.query, self._rotated(weights.key, distance), weights.value, weights.output)
