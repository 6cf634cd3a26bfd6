"""Norms whose scale is held fixed, so that what goes through them is a sum of what its parts give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.devices import wide

LARGE = 1e3
"""The size of what a norm is probed with, far above what it adds to a variance against division by zero."""

SLACK = 1e-3
"""How far a norm's own numbers may be from the held ones, of the largest: half of bfloat16's rounding or less."""


def is_norm(module: nn.Module) -> bool:
    """Say whether a module is a norm, by its class; what has parts is something larger around one."""
    return "norm" in type(module).__name__.lower() and not any(True for _ in module.children())


@dataclass(frozen=True)
class HeldNorm:
    """A norm as it treated one token: ``x → scale · gain ⊙ (x − mean(x)) + bias``, or without the mean.

    Attributes
    ----------
    gain, bias : (width,)
    scale : one over the standard deviation, or the root mean square, of the token.
    is_centred : whether the mean is taken off.
    """

    gain: Tensor
    bias: Tensor
    scale: Tensor
    is_centred: bool

    @classmethod
    def of(cls, norm: nn.Module, read: Tensor, written: Tensor) -> HeldNorm | None:
        """Find out what a norm does by probing it, and its scale from what it read and wrote at a token.

        Parameters
        ----------
        norm : LayerNorm, RMSNorm, with a gain that is counted from zero or one, or none: whatever it is called.
        read, written : (1, width)

        Returns
        -------
        HeldNorm, or None where the norm does something else.
        """
        read, width = read.to(written.device), read.shape[-1]  # it may come from the device before
        if width % 2 or written.shape != read.shape:
            return None
        signs = torch.ones(width, dtype=read.dtype, device=read.device)
        signs[1::2] = -1  # of mean zero and variance one
        probes = torch.stack([torch.zeros_like(signs), LARGE * signs, LARGE * signs.abs()])[:, None]
        zero, alternating, constant = wide(norm(probes)).reshape(3, width)
        gain, bias = (alternating - zero) * wide(signs), zero
        is_centred = bool((constant - zero).abs().max() < 0.1 * gain.abs().max())
        plain, made = _centred(wide(read), is_centred) * gain, wide(written)
        scale = ((made - bias) * plain).sum() / plain.square().sum().clamp_min(1e-30)
        held = cls(gain, bias, scale, is_centred)
        slack = SLACK if read.dtype in (torch.float32, torch.float64) else 40 * SLACK
        return held if bool((held(read) - made).abs().max() <= slack * made.abs().max()) else None

    def __call__(self, x: Tensor) -> Tensor:
        """Treat other numbers, (..., width), as that token was treated, in a wider dtype."""
        return self.scale * self.gain * _centred(wide(x.to(self.gain.device)), self.is_centred) + self.bias


def _centred(x: Tensor, is_centred: bool) -> Tensor:
    """Take the mean off, where the norm does."""
    return x - x.mean(-1, keepdim=True) if is_centred else x


def norm_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Give what a norm was called with."""
    return args[0] if args else next(iter(kwargs.values()), None)
