"""Which of what a module of somebody else's returns are logits, told by their shape alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from engine.values.errors import EngineError

OF_ONE = 1e-2
"""How far the sum of probabilities may be from one, in the 16 bits that they may have been worked out in."""


def logits_at(model: nn.Module, name: str, returned: Any, place: tuple[int, int], widths: frozenset[int]) -> Tensor:
    """Take the logits at a token out of what a module returns: (vocabulary,) float32.

    They are the one tensor of one sentence that is as wide as an embedding has rows, and not as wide as the stream
    that heads read. It is of all tokens, or of the last alone, as some modules are written that are to go on with it.
    Where it holds probabilities already, their logarithms are the logits, of which the softmax is what it holds.

    Parameters
    ----------
    name : what the module is called.
    returned : by the module.
    place : of the token, and how many there are.
    widths : what heads read and write.

    Raises
    ------
    EngineError : when there is no such tensor, several, or none of that token.
    """
    position, tokens = place
    vocabularies = {each.num_embeddings for each in model.modules() if isinstance(each, nn.Embedding)} - widths
    found = [
        each
        for each in _tensors(returned)
        if each.is_floating_point() and each.ndim == 3 and each.shape[0] == 1 and each.shape[1] in (1, tokens)
        if each.shape[2] in vocabularies
    ]
    if len(found) != 1:
        many = "several tensors" if found else "no tensor"
        raise EngineError(
            f"{name} is no model of transformers, and returns {many} of the shape of logits, (1, tokens, vocabulary); "
            "it has no predictions"
        )
    logits = found[0][0]
    if len(logits) == 1 < tokens and position != tokens - 1:
        raise EngineError(f"{name} returns logits of the last token alone, {tokens - 1}; leave the position out")
    own = logits[-1 if len(logits) == 1 else position].float().cpu()
    if bool(own.isnan().any()):
        raise EngineError(f"the logits that {name} gives here are NaN, nothing is predicted")
    return own.log() if bool((own >= 0).all()) and abs(float(own.sum()) - 1.0) < OF_ONE else own


def _tensors(returned: Any) -> Iterator[Tensor]:
    """Go through the tensors of what a module returns, however it is packed."""
    if isinstance(returned, Tensor):
        yield returned
    elif isinstance(returned, Mapping):
        for each in returned.values():
            yield from _tensors(each)
    elif isinstance(returned, tuple | list):
        for each in returned:
            yield from _tensors(each)
