"""The parts of a logit, as they are found: what is added to one token's, and to those of all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.mathematics.logits import root_mean_square
from engine.values.heads import Head

Part = tuple[float, float]
"""What something adds to the logit of a token, and what it adds to that of a token drawn at random."""


@dataclass(frozen=True)
class Contributions:
    """What a logit is made of.

    Attributes
    ----------
    logit : of the token; where a cap follows the unembedding, the one before the cap.
    heads : by head, in the order of the model; beside each the root mean square of what it adds to all tokens' logits.
    rest : of all that is no head: embedding, MLPs, biases; beside it the same.
    is_before_cap : whether the logit is not the final one.
    """

    logit: float
    heads: dict[Head, Part]
    rest: Part
    is_before_cap: bool


def added(logits: Tensor, token: int) -> Tensor:
    """Give what each row but the first adds to that one's logits: (rows, 2), to a token's and, as RMS, to all."""
    nothing = logits[0]
    spread = [root_mean_square(row - nothing if number else row) for number, row in enumerate(logits)]
    own = logits[:, token].double()
    return torch.stack([torch.cat([own[:1], own[1:] - own[0]]), torch.stack(spread).to(own)], 1)


def part_of(pair: Tensor) -> Part:
    """Take the two numbers of a part out of a tensor (2,)."""
    return float(pair[0]), float(pair[1])
