"""Singular values of heads and whole layers: on the CPU in parallel pieces, on a GPU one after the other.

If a GPU is short of memory or its solver fails, the CPU does the rest of the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.architectures.heads import LayerWeights
from engine.mathematics.spectra import circuit_singular_values, layer_factors, layer_norms, matrix_singular_values
from engine.mathematics.threads import run_in_rounds
from engine.models.devices import choose_device, lacks_memory, spectra_device
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.progress import Work
from engine.values.spectra import EPSILONS, NORMS, Arrays, FloatArray

PIECE = 2**21
"""Numbers in the factors of a piece of work, which takes some hundredths of a second."""

ROWS_AT_ONCE = 256
"""Rows that are searched at once for a number that is not zero; nearly always the first have one."""


class Decomposer:
    """Computes the singular values of heads and whole layers on a device.

    It notifies the person when it gives up a GPU.

    Raises `EngineError` if there is no such device.
    """

    def __init__(self, wish: str, notify: Callable[[str], None]) -> None:
        device = spectra_device(choose_device(wish))
        self._devices = {"heads": device, "whole layers": device}
        self._notify = notify
        if device != "cpu":  # torch loads a GPU's solver on first use, which two threads must not do at once
            with suppress(RuntimeError):
                torch.linalg.eigvalsh(torch.eye(2, dtype=torch.float64, device=device))

    def heads(self, weights: LayerWeights, matrices: Collection[str] = MATRICES) -> Work[list[Arrays]]:
        """Compute some matrices of every head."""
        pieces: list[Callable[[], Arrays]] = []
        for circuit in ("QK", "OV"):
            one, other = (weights.query, weights.key) if circuit == "QK" else (weights.output.mT, weights.value)
            problems = [([name], [part]) for name, part in zip(circuit, (one, other), strict=True) if name in matrices]
            if circuit in matrices and weights.circuits is None:
                problems = [([*(name for [name], _ in problems), circuit], [one, other])]
            elif circuit in matrices and weights.circuits is not None:  # an adapter's change has other factors
                of = weights.circuits
                problems.append(([circuit], [of.query, of.key] if circuit == "QK" else [of.output.mT, of.value]))
            for names, factors in problems:
                shared = len(factors[-1])
                numbers = sum(factor.numel() for factor in factors) // shared
                even = math.ceil(2 * shared / torch.get_num_threads())
                step = max(1, min(PIECE // numbers, even))  # in key/value heads, with the heads that share them
                parts = zip(*(factor.split(step * (len(factor) // shared)) for factor in factors), strict=True)
                pieces += [partial(self._solve, "heads", names, part) for part in parts]
        found = yield from run_in_rounds(pieces, None if self._devices["heads"] == "cpu" else 1)
        count, epsilons = len(weights.query), weights.epsilons
        del weights, one, other, problems, factors, pieces  # before the results are copied, to free whole arenas
        together = {matrix: np.concatenate([each[matrix] for each in found if matrix in each]) for matrix in matrices}
        together |= {EPSILONS[factor]: np.array(each)[:, None] for factor, each in epsilons.items()}
        return [
            {name: values[place * len(values) // count] for name, values in together.items()} for place in range(count)
        ]

    def layer(
        self, weights: LayerWeights, matrices: Collection[str] = MATRICES, known: Collection[str] = MATRICES
    ) -> Work[list[Arrays]]:
        """Compute matrices of a whole layer, and norms of factors whose singular values are not ``known``."""
        found: Arrays = {}
        for factor in sorted({*"".join(matrices)}):
            by_head = {"Q": weights.query, "K": weights.key, "V": weights.value, "O": weights.output.mT}[factor]
            found[EPSILONS[factor]] = _epsilon_of_layer(weights.epsilons[factor], by_head)
            if factor not in known:
                found[NORMS[factor]] = np.array(layer_norms(by_head))
        pieces: list[Callable[[], Arrays]] = []
        for matrix in sorted(matrices, key=len, reverse=True):  # products take longest
            of = weights if len(matrix) == 1 else weights.circuits or weights
            factors = layer_factors(matrix, *of.factors)
            if all(any(bool(rows.any()) for rows in factor.split(ROWS_AT_ONCE, -2)) for factor in factors):
                pieces.append(partial(self._solve, "whole layers", [matrix], factors))
            else:  # pruned
                found[matrix] = np.zeros(min(min(factor.shape[-2:]) for factor in factors))
        del weights, of, factors, by_head  # the sums of products are enough
        for each in (yield from run_in_rounds(pieces, None if self._devices["whole layers"] == "cpu" else 1)):
            found |= {matrix: values[0] for matrix, values in each.items()}
        return [found]

    def _solve(self, kind: str, names: Sequence[str], factors: Sequence[Tensor]) -> Arrays:
        """Compute a matrix from one factor, or from two the named ones of both factors and their circuit."""
        device = self._devices[kind]
        try:
            if len(factors) == 1:
                found = [matrix_singular_values(factors[0].to(device))]
            else:
                has_own, has_shared = (name in names for name in names[-1])
                found = circuit_singular_values(factors[0].to(device), factors[1].to(device), has_own, has_shared)
            return {name: values.numpy() for name, values in zip(names, found, strict=True)}
        except RuntimeError as error:
            why = _device_failure(error, device)
            if not why:
                raise
        # Outside the handler, the error and the tensors in its traceback are free.
        if device == "cpu":
            raise EngineError("too little memory is free for the spectra of this layer; close other programs")
        with suppress(RuntimeError):  # a device that failed once may fail again
            torch.cuda.empty_cache()
        self._devices[kind] = "cpu"
        self._notify(f"{device} {why}; spectra of {kind} are computed on the CPU")
        return self._solve(kind, names, factors)


def _epsilon_of_layer(epsilons: FloatArray, by_head: Tensor) -> FloatArray:
    """Return how finely a factor of a whole layer is stored, (1,); the squares of its heads' noise add up."""
    epsilons = epsilons[:: len(epsilons) // len(by_head)]
    if np.ptp(epsilons) > 0:
        sizes = [float(head.double().norm()) for head in by_head]
        epsilons = np.sqrt(np.average(epsilons**2, weights=np.square(sizes), keepdims=True))
    return np.array(epsilons[:1])


def _device_failure(error: RuntimeError, device: str) -> str:
    """Say why a device failed; empty if it did not."""
    if lacks_memory(error):
        return "has too little free memory"
    gave_up: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]  # a documented name
    said = str(error).partition("\n")[0]
    if device == "cpu":
        return ""
    if isinstance(error, gave_up) or "cusolver error" in said:
        return "cannot decompose such matrices"
    return f"fails ({said})" if isinstance(error, torch.AcceleratorError) or "CUDA error" in said else ""
