"""Where and how singular values are computed: on the CPU side by side, on a GPU in batches, whichever is faster here.

Which way is the fastest depends on the machine: on how many cores share the memory, and on whether a GPU's float64 is
as strong as its float32 or sixty times weaker. So the ways are tried on the first layers, which is work that had to be
done anyway, and the fastest is kept. All give the same numbers.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.mathematics.spectra import circuit_of_heads, layer_matrix, squaring_pays
from engine.models.devices import choose_device, lacks_memory, spectra_device
from engine.service.crew import Crew
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.spectra import FloatArray

Factors = tuple[Tensor, Tensor, Tensor, Tensor]
Breathe = Callable[[], None]

FEW_THREADS = 4
"""Up to so many, pieces side by side were faster than one after the other wherever that was measured."""

PIECE = 2**21
"""Numbers of the factors that a piece of the heads' work takes up, some hundredths of a second of it."""

SIDE_BY_SIDE_BYTES = 2**29
"""What whole matrices that are decomposed side by side may take; larger ones follow one another."""

OVERLAPPING = 2
"""Pieces that a GPU has at a time: one is copied to it while the other is computed."""

COPIES = 4
"""How many times a whole matrix is held in float64 while it is decomposed: itself, its square, and LAPACK's copies."""

_LOADING = threading.Lock()
_STREAMS: defaultdict[str, list[torch.cuda.Stream]] = defaultdict(list)
"""By device, those that no piece has now; a list's ends are changed by one thread at a time."""

_LOADED: set[str] = set()
"""Devices whose libraries of linear algebra are there; two threads that call for them at once would both fail."""

TRIES = 2
"""How often each way is tried, the first time with all that a library does once."""


@dataclass(frozen=True)
class Way:
    """One way to compute.

    Attributes
    ----------
    device : where matrices are multiplied.
    solver : where their Gram matrices are taken apart; None is the same.
    is_beside : whether pieces run side by side, each on a thread of its own.
    """

    device: str
    solver: str | None = None
    is_beside: bool = False


class Ways:
    """Several ways to the same result, of which the fastest is kept once each has been tried on real work."""

    def __init__(self, ways: Sequence[Way]) -> None:
        self._seconds: dict[Way, list[float]] = {way: [] for way in ways}

    def choose(self) -> Way:
        """Give a way that has not been tried enough, or else the fastest."""
        if len(self._seconds) > 1:
            for way, seconds in self._seconds.items():
                if len(seconds) < TRIES:
                    return way
        return min(self._seconds, key=lambda way: min(self._seconds[way], default=0.0))

    def learn(self, way: Way, seconds: float) -> None:
        """Note how long a way took."""
        self._seconds[way] = [*self._seconds[way], seconds][:TRIES]


class Computing:
    """Computes the singular values of layers; belongs to the engine thread.

    Parameters
    ----------
    wish : the device, as a person names it.
    notify : told in a sentence what goes another way than was wished.

    Raises
    ------
    EngineError : when there is no such device.
    """

    def __init__(self, wish: str, notify: Callable[[str], None]) -> None:
        self._devices = dict.fromkeys((False, True), spectra_device(choose_device(wish)))  # by whether layers are whole
        self._notify = notify
        self._crew = Crew(torch.get_num_threads())
        self._ways: dict[Hashable, Ways] = {}
        self._heads_at_once: int | None = None
        self._is_squared = dict.fromkeys(MATRICES, True)  # until a layer shows that it does not pay for this model

    def heads(self, factors: Factors, breathe: Breathe) -> dict[str, FloatArray]:
        """Compute the singular values of every head's matrices and circuits.

        Parameters
        ----------
        factors : as `head_singular_values` takes them.
        breathe : called between the pieces of the work.

        Returns
        -------
        By matrix, (heads, structural rank), largest first.
        """
        return self._fastest((), factors, partial(self._heads, factors=factors, breathe=breathe))

    def layer(self, factors: Factors, matrices: Sequence[str], breathe: Breathe) -> dict[str, FloatArray]:
        """Compute the singular values of matrices of a whole layer; parameters as for `heads`.

        Returns
        -------
        By matrix, (1, structural rank), largest first.
        """
        matrices = tuple(matrices)
        return self._fastest(
            matrices, factors, partial(self._layer, factors=factors, matrices=matrices, breathe=breathe)
        )

    def _fastest(
        self, whole: tuple[str, ...], factors: Factors, compute: Callable[[Way], dict[str, FloatArray]]
    ) -> dict[str, FloatArray]:
        """Compute in the way that is the fastest for factors of these shapes, as far as is known.

        Which matrices of a whole layer are computed says how long it takes too; none stands for the heads.
        """
        # A function that is written here would keep the factors wherever an error keeps the frames of who called it.
        whole_layer = bool(whole)
        while True:
            key = (self._devices[whole_layer], whole, *(factor.shape for factor in factors))
            ways = self._ways.setdefault(key, Ways(self._candidates(whole)))
            way = ways.choose()
            start = time.perf_counter()
            try:
                values = compute(way)
            except RuntimeError as error:
                is_short = lacks_memory(error)
                if not is_short and (way.device == "cpu" or not (_is_the_solvers(error) or _is_the_devices(error))):
                    raise
                why = _why(error)
            else:
                ways.learn(way, time.perf_counter() - start)
                return values
            # The error is gone by now, and with it the tensors of where it was raised.
            self._make_do(way, whole_layer, factors, why, is_short)

    def _candidates(self, whole: tuple[str, ...]) -> list[Way]:
        """List the ways that may be the fastest."""
        beside, alone, device = Way("cpu", is_beside=True), Way("cpu"), self._devices[bool(whole)]
        if device == "cpu":
            ways = [beside] if self._crew.size <= FEW_THREADS else [beside, alone]
        else:
            ways = [Way(device), Way(device, "cpu")]
            if not whole:
                ways.append(beside)
        return ways

    def _make_do(self, way: Way, whole_layer: bool, factors: Factors, why: str, is_short: bool) -> None:
        """Do with less of a device's memory: with half as many heads at once, and at last without it.

        ``is_short`` says that it is memory that was missing, and not that the device fails at such matrices, or fails.
        """
        if way.device == "cpu":
            raise EngineError("there is too little free memory for this layer's spectra; close other programs")
        with suppress(RuntimeError):  # a device that failed once may fail at whatever it is asked
            torch.cuda.empty_cache()
        heads = min(self._heads_at_once or len(factors[0]), len(factors[0])) // 2
        if not is_short or whole_layer or heads < len(factors[0]) // len(factors[1]):
            of_what = "of whole layers" if whole_layer else "of heads"
            self._notify(f"{way.device} {why}; spectra {of_what} are computed on the CPU")
            self._devices[whole_layer] = "cpu"
        else:
            if self._heads_at_once is None:
                self._notify(f"{way.device} has little free memory; spectra of heads are computed a few at a time")
            self._heads_at_once = heads

    def _heads(self, way: Way, factors: Factors, breathe: Breathe) -> dict[str, FloatArray]:
        """Compute all heads of a layer in one way, a few at a time."""
        query, key, value, output = factors
        group = len(query) // len(key)
        pieces = []
        for circuit, own, shared in (("QK", query, key), ("OV", output.mT, value)):
            numbers = group * own[0].numel() + shared[0].numel()
            fitting = PIECE // numbers if way.device == "cpu" else (self._heads_at_once or len(own)) // group
            step = max(1, fitting)  # what shares a key/value head is computed together
            parts = zip(own.split(group * step), shared.split(step), strict=True)
            pieces += [partial(_circuit, way, circuit, *part) for part in parts]
        found: dict[str, list[FloatArray]] = {}
        at_once = None if way.is_beside else 1 if way.device == "cpu" else OVERLAPPING
        for values in self._crew.run(pieces, breathe, at_once):
            for matrix, rows in values.items():
                found.setdefault(matrix, []).append(rows)
        return {matrix: np.concatenate(found[matrix]) for matrix in MATRICES}

    def _layer(self, way: Way, factors: Factors, matrices: Sequence[str], breathe: Breathe) -> dict[str, FloatArray]:
        """Compute matrices of a whole layer in one way, the slowest first."""
        order = sorted(matrices, key=len, reverse=True)
        width = max(max(len(factor) * factor.shape[1], factor.shape[2]) for factor in factors[:3])
        at_once = SIDE_BY_SIDE_BYTES // (COPIES * 8 * width**2) if way.is_beside else 1
        pieces = [partial(_matrix, way, matrix, factors, self._is_squared[matrix]) for matrix in order]
        found = dict(zip(order, self._crew.run(pieces, breathe, max(1, at_once)), strict=True))
        for matrix in order:
            self._is_squared[matrix] &= squaring_pays(found[matrix])
        return {matrix: found[matrix] for matrix in matrices}


def _circuit(way: Way, circuit: str, own: Tensor, shared: Tensor) -> dict[str, FloatArray]:
    """Compute a circuit of some heads, and its factors."""
    with _own_stream(way.device):
        _load_libraries(way.device)
        values = circuit_of_heads(circuit, own.to(way.device), shared.to(way.device), way.solver)
        return {matrix: rows.cpu().numpy() for matrix, rows in values.items()}


@contextmanager
def _own_stream(device: str) -> Iterator[None]:
    """Give a piece on a GPU a stream of its own, so that what it copies and another one computes overlap.

    Memory that a stream is done with is kept for it alone, so there are no more streams than pieces at a time.
    """
    if not device.startswith("cuda"):
        yield
        return
    try:
        stream = _STREAMS[device].pop()
    except IndexError:
        stream = torch.cuda.Stream(device)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        _STREAMS[device].append(stream)


def _matrix(way: Way, matrix: str, factors: Factors, is_squared: bool) -> FloatArray:
    """Compute one matrix of a whole layer."""
    _load_libraries(way.device)
    query, key, value, output = (  # zeros that stand for what is not wanted would become real ones
        factor.to(way.device) if name in matrix else factor for name, factor in zip("QKVO", factors, strict=True)
    )
    values: FloatArray = layer_matrix(matrix, query, key, value, output, way.solver, is_squared).cpu().numpy()[None]
    return values


def _load_libraries(device: str) -> None:
    """Have one thread alone take a first matrix apart on a GPU: torch loads what it takes there only then, once."""
    if device == "cpu" or device in _LOADED:
        return
    with _LOADING:
        if device not in _LOADED:
            torch.linalg.eigvalsh(torch.eye(2, dtype=torch.float64, device=device))
            _LOADED.add(device)


def _why(error: RuntimeError) -> str:
    """Say why a device is not computed with, or with less of it at a time."""
    if lacks_memory(error):
        return "has too little free memory"
    if _is_the_solvers(error):
        return "cannot decompose such matrices"
    said = str(error).partition("\n")[0]
    return f"fails ({said})"


def _is_the_devices(error: RuntimeError) -> bool:
    """Say whether it is the device that failed: others may have it to themselves, or it may be broken."""
    return isinstance(error, torch.AcceleratorError) or "CUDA error" in str(error)


def _is_the_solvers(error: RuntimeError) -> bool:
    """Say whether a GPU's library gave a matrix up, as some do that LAPACK decomposes."""
    gave_up: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]  # a documented name
    return isinstance(error, gave_up) or "cusolver error" in str(error)
