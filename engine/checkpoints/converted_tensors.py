"""Tensors that are computed from stored ones, and quantised weights, decoded without the libraries that wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import TensorEntry, Tensors, View, whole
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

SCALE_SUFFIX = "_scale_inv"
"""Follows a weight's name in the name of its scales."""

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""The places of eight numbers in a word, counted in steps of four bits (Lin et al. 2023, the format of its kernels)."""

INT8_RANGE = 127.0
"""The largest number of a row is stored as this (Dettmers et al. 2022)."""

QUANT_STATE = ".quant_state.bitsandbytes__"
"""Follows a packed weight's name, and precedes the kind of its numbers, in the name of the tensor that describes it."""

_PARTS = ("qweight", "qzeros", "scales", "g_idx")


@dataclass(frozen=True)
class Conversion:
    """How one tensor is computed.

    Attributes
    ----------
    entry : its shape, and the dtype that says how finely it is stored.
    make : computes it.
    step : as `Tensors.steps`, for a tensor of whole numbers or a few levels.
    """

    entry: TensorEntry
    make: Callable[[], Tensor]
    step: Callable[[], float] | None = None


class ConvertedTensors(Tensors):
    """Tensors of which some are as stored, and others computed from stored ones by a conversion.

    ``names`` maps those that are as stored to their stored names; by default all keep their names.
    """

    def __init__(
        self, stored: Tensors, conversions: Mapping[str, Conversion], names: Mapping[str, str] | None = None
    ) -> None:
        self._stored = stored
        names = {name: name for name in stored.entries} if names is None else names
        self._names = {name: own for name, own in names.items() if name not in conversions}
        self._conversions = conversions
        self.entries = {name: stored.entries[own] for name, own in self._names.items()}
        self.entries |= {name: conversion.entry for name, conversion in conversions.items()}
        self.read_in_parts = {name for name, own in self._names.items() if own in stored.read_in_parts}
        self.steps = {name: stored.steps[own] for name, own in self._names.items() if own in stored.steps}
        self.steps |= {name: each.step for name, each in conversions.items() if each.step is not None}

    def read(self, name: str, view: View = whole) -> Tensor:
        """Read one tensor, or a view of it; a tensor that is computed is computed as a whole."""
        if name in self._names:
            return self._stored.read(self._names[name], view)
        return view(self._conversions[name].make())


def dequantise(stored: Tensors, config: Mapping[str, Any], model: str) -> Tensors:
    """Decode a checkpoint's tensors as the configuration's ``quantization_config`` says.

    Raises `EngineError` when the method cannot be read, naming it and the model.
    """
    settings = config.get("quantization_config") or {}
    method = settings.get("quant_method") or ""
    if method in ("", "fp8", "mxfp4"):  # these leave attention weights plain, or store them as float8
        return _decode_float8(stored, settings)
    if method == "bitsandbytes":
        return _decode_bitsandbytes(stored)
    if method in ("gptq", "awq"):
        return _decode_packed_words(stored, settings, method)
    raise EngineError(
        f"{model} is quantised with {method}, which attn-tui cannot read; open the model it was made from"
    )


def _replace_parts(stored: Tensors, parts: set[str], conversions: Mapping[str, Conversion]) -> Tensors:
    return ConvertedTensors(stored, conversions, {name: name for name in stored.entries if name not in parts})


def _decode_float8(stored: Tensors, settings: Mapping[str, Any]) -> Tensors:
    """Multiply every block of a float8 weight by its own scale (DeepSeek-AI 2024, section 3.3)."""
    block = settings.get("weight_block_size")
    rows, columns = block if block and len(block) == 2 and min(block) > 0 else (128, 128)
    conversions = {
        name: Conversion(entry, partial(_scale_blocks, stored, name, int(rows), int(columns)))
        for name, entry in stored.entries.items()
        if f"{name}{SCALE_SUFFIX}" in stored.entries
    }
    return ConvertedTensors(stored, conversions) if conversions else stored


def _scale_blocks(stored: Tensors, name: str, block_rows: int, block_columns: int) -> Tensor:
    weight = stored.read(name)
    scale = stored.read(f"{name}{SCALE_SUFFIX}").float()
    shape = list(scale.shape)
    rows, columns = weight.shape
    if scale.ndim == 2:
        scale = scale.repeat_interleave(block_rows, 0)[:rows].repeat_interleave(block_columns, 1)[:, :columns]
    if scale.ndim not in (0, 2) or (scale.ndim == 2 and scale.shape != weight.shape):
        raise EngineError(
            f"{name}{SCALE_SUFFIX} has shape {shape}, which does not fit {name} of {rows}×{columns} in blocks of "
            f"{block_rows}×{block_columns}; download the model again"
        )
    return weight.float() * scale


def _unpack(words: Tensor, bits: int, order: tuple[int, ...] | None = None) -> Tensor:
    """Unpack numbers of so many bits from 32-bit words (rows, words), the lowest bits first or in another order."""
    import torch

    places = torch.tensor(order or range(32 // bits), dtype=torch.int64)
    numbers: Tensor = (words.long()[..., None] >> (places * bits)) & (2**bits - 1)
    return numbers.flatten(-2)


def _decode_packed_words(stored: Tensors, settings: Mapping[str, Any], method: str) -> Tensors:
    """Replace the parts that GPTQ (Frantar et al. 2022) or AWQ store by the weight ``[out, in]``.

    Both have a scale and a zero point for every output in every group of inputs. AWQ (Lin et al. 2023) is read in the
    format of its kernels for matrix products.
    """
    bits = settings.get("bits") or 4
    if bits not in (2, 4, 8):
        raise EngineError(f"{method.upper()} with {bits} bits cannot be read; open the model it was made from")
    version = (settings.get("version") or "gemm").lower()
    if method == "awq" and (bits != 4 or version != "gemm"):
        raise EngineError(f"AWQ with {bits} bits in the form '{version}' cannot be read; attn-tui reads 4 bits, gemm")
    # The first version of GPTQ's format stores each zero point less one.
    offset = 0 if method == "awq" or settings.get("checkpoint_format") == "gptq_v2" else 1
    modules = [name.removesuffix(".qweight") for name in stored.entries if name.endswith(".qweight")]
    conversions: dict[str, Conversion] = {}
    for module in modules:
        rows, columns = stored.entries[f"{module}.qweight"].shape
        shape = (columns * 32 // bits, rows) if method == "awq" else (columns, rows * 32 // bits)
        make = partial(_read_packed_words, stored, module, method, bits, offset)
        step = partial(_root_mean_square, stored, f"{module}.scales")
        conversions[f"{module}.weight"] = Conversion(TensorEntry(shape, f"int{bits}"), make, step)
    return _replace_parts(stored, {f"{module}.{part}" for module in modules for part in _PARTS}, conversions)


def _read_packed_words(stored: Tensors, module: str, method: str, bits: int, offset: int) -> Tensor:
    """Read a weight whose inputs form groups: contiguous ones, or for GPTQ in any order."""
    import torch

    words, zeros, scales = (stored.read(f"{module}.{part}") for part in _PARTS[:3])
    order = AWQ_ORDER if method == "awq" else None
    numbers = _unpack(words, bits, order) if method == "awq" else _unpack(words.T, bits).T  # (in, out)
    zero = _unpack(zeros, bits, order)[:, : numbers.shape[1]] + offset  # (groups, out)
    if f"{module}.g_idx" in stored.entries:
        group = stored.read(f"{module}.g_idx").long()
    else:
        group = torch.arange(len(numbers)) // (len(numbers) // len(scales))
    weight: Tensor = scales.float()[group] * (numbers - zero[group])
    return weight.T.contiguous()


def _decode_bitsandbytes(stored: Tensors) -> Tensors:
    """Decode bitsandbytes: rows of eight bits (Dettmers et al. 2022), or blocks of four (Dettmers et al. 2023)."""
    conversions: dict[str, Conversion] = {}
    hidden: set[str] = set()
    for name in stored.entries:
        weight, separator, kind = name.partition(QUANT_STATE)
        if separator:
            conversions[weight] = _four_bits(stored, weight, kind, _read_state(stored, name))
            hidden |= {each for each in stored.entries if each.startswith(f"{weight}.")}
        if name.endswith(".SCB"):
            weight = f"{name.removesuffix('.SCB')}.weight"
            conversions[weight] = _eight_bits(stored, weight, name)
            hidden |= {name, f"{name.removesuffix('.SCB')}.weight_format"}
    return _replace_parts(stored, hidden, conversions)


def _read_state(stored: Tensors, name: str) -> dict[str, Any]:
    """Read the description of a packed weight, JSON stored as a tensor of bytes."""
    try:
        state: dict[str, Any] = json.loads(bytes(stored.read(name).tolist()))
        if min(state["blocksize"], *state["shape"]) < 1:
            raise ValueError("its sizes are not positive")
    except (ValueError, TypeError, KeyError) as error:
        raise EngineError(f"{name} does not describe a packed weight ({error}); download the model again") from error
    return state


def _eight_bits(stored: Tensors, weight: str, scales: str) -> Conversion:
    """Decode rows whose largest number is stored as `INT8_RANGE`."""

    def make() -> Tensor:
        return stored.read(weight).float() * (stored.read(scales).float()[:, None] / INT8_RANGE)

    entry = TensorEntry(stored.entries[weight].shape, "int8")
    return Conversion(entry, make, lambda: _root_mean_square(stored, scales) / INT8_RANGE)


def _four_bits(stored: Tensors, weight: str, kind: str, state: Mapping[str, Any]) -> Conversion:
    """Decode blocks of numbers that are places in a table of levels."""

    def make() -> Tensor:
        return _look_up_levels(stored, weight, state, stored.read(f"{weight}.quant_map").float())

    def step() -> float:
        import torch

        levels, places = stored.read(f"{weight}.quant_map").float().sort()
        gaps = levels.diff()
        around = torch.empty_like(levels)
        around[places] = (torch.cat([gaps[:1], gaps]) + torch.cat([gaps, gaps[-1:]])) / 2
        return float(_look_up_levels(stored, weight, state, around).double().square().mean().sqrt())

    return Conversion(TensorEntry(tuple(state["shape"]), kind), make, step)


def _look_up_levels(stored: Tensors, weight: str, state: Mapping[str, Any], table: Tensor) -> Tensor:
    """Look up packed four-bit numbers in a table, and scale each block; the scales may be packed as well."""
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


def _root_mean_square(stored: Tensors, name: str) -> float:
    return float(stored.read(name).double().square().mean().sqrt())
