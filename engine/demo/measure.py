"""How much a head looks at the token before, and how much it continues a sequence it has seen."""

import torch
from torch import Tensor
from transformers import LlamaForCausalLM


def previous_token_scores(maps: Tensor) -> Tensor:
    """Return every map's mean attention from position i to i - 1, over all i from 1.

    `maps` is (..., query, key); the result has its leading shape.
    """
    return maps.diagonal(offset=-1, dim1=-2, dim2=-1).mean(-1)


def induction_scores(maps: Tensor, distance: int, start: int) -> Tensor:
    """Return every map's mean attention from position i to i - distance + 1, over all i from `start`.

    `maps` is (..., query, key); the result has its leading shape. `start` is where the repetition begins.
    """
    queries = torch.arange(start, maps.shape[-2])
    return maps[..., queries, queries - distance + 1].mean(-1)


def repeat_scores(model: LlamaForCausalLM, first: int, distance: int, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Show the model random tokens twice, the copy `distance` later, and score every head.

    Every row is the start token 0 and then `distance` random tokens from `first` on, twice.
    Returns previous-token and induction scores, both (layer, head), means over the rows.
    """
    generator = torch.Generator().manual_seed(seed)
    once = torch.randint(first, model.config.vocab_size, (rows, distance), generator=generator)
    start = torch.zeros(rows, 1, dtype=once.dtype)
    with torch.no_grad():
        output = model(torch.cat([start, once, once], dim=1), output_attentions=True)
    maps = torch.stack(output.attentions)  # (layer, row, head, query, key)
    return previous_token_scores(maps).mean(1), induction_scores(maps, distance, distance + 1).mean(1)
