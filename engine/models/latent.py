"""Projections in two steps, as in multi-head latent attention, put together into one matrix for each head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FirstStep:
    """From the residual stream to a latent, and the norm that is applied to it.

    The norm divides a token's latent by its size, which depends on the token, and multiplies it by a gain, which does
    not. Only the gain can be part of a matrix; heads read through a norm carry a mark that says so.

    Attributes
    ----------
    down : (rank + shared, d_model); its last rows skip the norm, and are a part of the key that all heads share.
    gain : (rank,)
    bias : (rank + shared,), or None.
    """

    down: Tensor
    gain: Tensor
    bias: Tensor | None

    def then(self, up: Tensor, up_bias: Tensor | None, *, with_shared: bool) -> tuple[Tensor, Tensor | None]:
        """Compose it with the second step: ``up · diag(gain) · down``, in float64 (DeepSeek-AI 2024, equations 9–17).

        Parameters
        ----------
        up : (heads, rows, rank)
        up_bias : (heads, rows), or None.
        with_shared : whether every head's rows go on with the shared ones.

        Returns
        -------
        weight : (heads, rows [+ shared], d_model)
        bias : (heads, rows [+ shared]), or None where neither step has one.
        """
        rank = len(self.gain)
        scaled = up.double() * self.gain.double()
        weight = scaled @ self.down[:rank].double()
        bias = None if up_bias is None else up_bias.double()
        if self.bias is not None:
            through = scaled @ self.bias[:rank].double()
            bias = through if bias is None else through + bias
        if with_shared and len(self.down) > rank:
            shared = self.down[rank:].double()
            weight = torch.cat([weight, shared.expand(len(up), -1, -1)], 1)
            if bias is not None:
                tail = torch.zeros(len(shared)) if self.bias is None else self.bias[rank:]
                bias = torch.cat([bias, tail.to(bias).expand(len(up), -1)], 1)
        return weight, bias
