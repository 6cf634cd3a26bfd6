"""Weights packed into integers by GPTQ, AWQ and bitsandbytes, unpacked to what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import TensorEntry, Tensors
from engine.checkpoints.decoded_tensors import Decoded
from engine.checkpoints.json_files import NUMBER, WHOLE, WHOLES, Kind, parse_object
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where the eight numbers of a word are, counted in fours of bits (Lin et al. 2023, the format of its kernels)."""

INT8_RANGE = 127.0
"""What the largest number of a row is stored as (Dettmers et al. 2022)."""

QUANT_STATE = ".quant_state.bitsandbytes__"
"""What the tensor that describes a packed weight is called, after the weight and before the kind of its numbers."""

STATE_FIELDS: Mapping[str, Kind] = {
    "shape": WHOLES,
    **dict.fromkeys(("blocksize", "nested_blocksize"), WHOLE),
    "nested_offset": NUMBER,
}
"""What bitsandbytes says of a packed weight."""

_PARTS = ("qweight", "qzeros", "scales", "g_idx")


def unpack(words: Tensor, bits: int, order: tuple[int, ...] | None = None) -> Tensor:
    """Take the numbers out of 32-bit words, the lowest bits first.

    Parameters
    ----------
    words : (rows, words) integers.
    bits : of a number; divides 32.
    order : which of a word's places each number is at; one after the other unless given.

    Returns
    -------
    numbers : (rows, words · 32 / bits), not negative.
    """
    import torch

    places = torch.tensor(order or range(32 // bits), dtype=torch.int64)
    numbers: Tensor = (words.long()[..., None] >> (places * bits)) & (2**bits - 1)
    return numbers.flatten(-2)


def gptq(stored: Tensors, settings: Mapping[str, Any]) -> Tensors:
    """Read GPTQ (Frantar et al. 2022): a scale and a zero point for every output in every group of inputs."""
    bits = _bits(settings, "GPTQ")
    # The first version of the format stores each zero point less one.
    offset = 0 if settings.get("checkpoint_format") == "gptq_v2" else 1

    def decoder(module: str) -> Callable[[], Tensor]:
        def read() -> Tensor:
            import torch

            words, zeros, scales = (stored.read(f"{module}.{part}") for part in _PARTS[:3])
            numbers = unpack(words.T, bits).T  # (in, out)
            zero = unpack(zeros, bits)[:, : numbers.shape[1]] + offset
            if f"{module}.g_idx" in stored.entries:
                group = stored.read(f"{module}.g_idx").long()
            else:
                group = torch.arange(len(numbers)) // (len(numbers) // len(scales))
            weight: Tensor = scales.float()[group] * (numbers - zero[group])
            return weight.T.contiguous()

        return read

    def shape(module: str) -> tuple[int, ...]:
        rows, columns = stored.entries[f"{module}.qweight"].shape
        return columns, rows * 32 // bits

    return _packed(stored, bits, shape, decoder)


def awq(stored: Tensors, settings: Mapping[str, Any]) -> Tensors:
    """Read AWQ (Lin et al. 2023) as its kernels for matrix products keep it.

    Raises
    ------
    EngineError : when it has other than 4 bits, or another form.
    """
    bits = _bits(settings, "AWQ")
    version = (settings.get("version") or "gemm").lower()
    if bits != 4 or version != "gemm":
        raise EngineError(f"AWQ with {bits} bits in the form '{version}' cannot be read; attn-tui reads 4 bits, gemm")

    def decoder(module: str) -> Callable[[], Tensor]:
        def read() -> Tensor:
            words, zeros, scales = (stored.read(f"{module}.{part}") for part in _PARTS[:3])
            numbers, zero = unpack(words, bits, AWQ_ORDER), unpack(zeros, bits, AWQ_ORDER)  # (in, out), (groups, out)
            size = len(numbers) // len(scales)
            weight: Tensor = scales.float().repeat_interleave(size, 0) * (numbers - zero.repeat_interleave(size, 0))
            return weight.T.contiguous()

        return read

    def shape(module: str) -> tuple[int, ...]:
        rows, columns = stored.entries[f"{module}.qweight"].shape
        return columns * 32 // bits, rows

    return _packed(stored, bits, shape, decoder)


def _bits(settings: Mapping[str, Any], method: str) -> int:
    """Read how many bits a number has."""
    bits = settings.get("bits") or 4
    if bits not in (2, 4, 8):
        raise EngineError(f"{method} with {bits} bits cannot be read; open the model it was made from")
    return int(bits)


def _packed(
    stored: Tensors,
    bits: int,
    shape: Callable[[str], tuple[int, ...]],
    decoder: Callable[[str], Callable[[], Tensor]],
) -> Tensors:
    """Put a weight ``[out, in]`` in the place of every module's packed parts."""

    def step(module: str) -> float:
        return _root_mean_square(stored.read(f"{module}.scales"))

    modules = [name.removesuffix(".qweight") for name in stored.entries if name.endswith(".qweight")]
    hidden = frozenset(f"{module}.{part}" for module in modules for part in _PARTS)
    return Decoded(
        stored,
        {f"{module}.weight": (TensorEntry(shape(module), f"int{bits}"), decoder(module)) for module in modules},
        hidden,
        {f"{module}.weight": partial(step, module) for module in modules},
    )


def bitsandbytes(stored: Tensors, settings: Mapping[str, Any]) -> Tensors:
    """Read bitsandbytes: rows of eight bits (Dettmers et al. 2022), or blocks of four (Dettmers et al. 2023)."""
    decoders: dict[str, tuple[TensorEntry, Callable[[], Tensor]]] = {}
    steps: dict[str, Callable[[], float]] = {}
    hidden: set[str] = set()
    for name in stored.entries:
        weight, separator, kind = name.partition(QUANT_STATE)
        if separator:
            state = _state(stored, name)
            shape = tuple(int(size) for size in state["shape"])
            decoders[weight] = TensorEntry(shape, kind), partial(_four_bits, stored, weight, state)
            steps[weight] = partial(_step_of_four_bits, stored, weight, state)
            hidden |= {each for each in stored.entries if each.startswith(f"{weight}.")}
        if name.endswith(".SCB"):
            weight = f"{name.removesuffix('.SCB')}.weight"
            decoders[weight] = TensorEntry(stored.entries[weight].shape, "int8"), _eight_bits(stored, weight, name)
            steps[weight] = partial(_step_of_eight_bits, stored, name)
            hidden |= {name, f"{name.removesuffix('.SCB')}.weight_format"}
    return Decoded(stored, decoders, frozenset(hidden), steps)


def _state(stored: Tensors, name: str) -> dict[str, Any]:
    """Read the description of a packed weight, which is JSON kept as a tensor of bytes."""
    try:
        state = parse_object(bytes(stored.read(name).tolist()), STATE_FIELDS, name)
        if min(state.get("blocksize") or 0, *(state.get("shape") or [0])) < 1:
            raise EngineError("its sizes are not positive")
    except EngineError as error:
        raise EngineError(f"{name} does not describe a packed weight ({error}); download the model again") from error
    return state


def _eight_bits(stored: Tensors, weight: str, scales: str) -> Callable[[], Tensor]:
    """Make what reads a weight whose rows each have a scale."""
    return lambda: stored.read(weight).float() * (stored.read(scales).float()[:, None] / INT8_RANGE)


def _step_of_eight_bits(stored: Tensors, scales: str) -> float:
    """Give the distance between a row's neighbouring numbers, over all rows."""
    return _root_mean_square(stored.read(scales)) / INT8_RANGE


def _four_bits(stored: Tensors, weight: str, state: Mapping[str, Any]) -> Tensor:
    """Read a weight of two numbers a byte."""
    return _of_levels(stored, weight, state, stored.read(f"{weight}.quant_map").float())


def _step_of_four_bits(stored: Tensors, weight: str, state: Mapping[str, Any]) -> float:
    """Give the distance between neighbouring levels, over the numbers as they are spread among them."""
    import torch

    levels, places = stored.read(f"{weight}.quant_map").float().sort()
    gaps = levels.diff()
    around = torch.empty_like(levels)
    around[places] = (torch.cat([gaps[:1], gaps]) + torch.cat([gaps, gaps[-1:]])) / 2
    return _root_mean_square(_of_levels(stored, weight, state, around))


def _of_levels(stored: Tensors, weight: str, state: Mapping[str, Any], table: Tensor) -> Tensor:
    """Look up in a table what is packed in fours of bits, and scale each block, by scales that may be packed too."""
    import torch

    scales = stored.read(f"{weight}.absmax")
    if f"{weight}.nested_absmax" in stored.entries:
        nested = stored.read(f"{weight}.nested_absmax").float()
        levels = stored.read(f"{weight}.nested_quant_map").float()[scales.long()]
        of_block = nested.repeat_interleave(int(state["nested_blocksize"]))[: len(levels)]
        scales = levels * of_block + float(state.get("nested_offset", 0.0))
    packed = stored.read(weight).flatten().long()
    numbers = torch.stack([packed >> 4, packed & 15], 1).flatten()  # the higher half of a byte comes first
    values = table[numbers] * scales.float().repeat_interleave(int(state["blocksize"]))[: len(numbers)]
    return values[: TensorEntry(tuple(state["shape"]), "").parameters].reshape(list(state["shape"]))


def _root_mean_square(numbers: Tensor) -> float:
    """Give the typical size of numbers."""
    return float(numbers.double().square().mean().sqrt())


FORMATS: dict[str, Callable[[Tensors, Mapping[str, Any]], Tensors]] = {
    "gptq": gptq,
    "awq": awq,
    "bitsandbytes": bitsandbytes,
}
"""By what ``quantization_config`` calls its method."""
