"""The engine of attn-tui: models, weights, mathematics and attention, with no knowledge of any screen.

Its floors, from the ground up: ``values`` (what crosses to the screen), ``mathematics`` (pure functions),
``models`` (files, architectures, sentences) and ``service`` (the engine thread). Imports only go down.
Nothing on the way to the first frame imports torch.

`open_module` opens a PyTorch model that is in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from engine.service.opened import OpenModule


def open_module(
    module: nn.Module, tokenizer: Any = None, *, name: str = "", example: Any = None, device: str = "auto"
) -> OpenModule:
    """Open a PyTorch model that is in memory: of transformers, ``nn.MultiheadAttention``, or written by hand.

    A model of transformers is taken apart by the same rules as a checkpoint. Any other is called once, and its heads
    are found by how it computes, whatever its projections are called. Nothing of it is changed.

    Parameters
    ----------
    module : the model, or a part of one that computes attention.
    tokenizer : of transformers, or anything with ``encode`` and ``decode``; None has sentences given as token numbers.
    name : what it is called; its class unless given.
    example : what it is called with, one argument or a tuple or a dictionary of them, for one sentence; made up from
        its embeddings and widths unless given.
    device : where spectra are computed; sentences are read where the model is.

    Raises
    ------
    EngineError : when no attention is found that can be followed, saying why.

    Examples
    --------
    >>> from torch import nn
    >>> model = open_module(nn.MultiheadAttention(32, 4))
    >>> model.weights("L0H1")["W_Q"].shape
    (8, 32)
    """
    from engine.service.opened import OpenModule
    from engine.service.options import EngineOptions

    return OpenModule(module, tokenizer, name, example, EngineOptions(device=device))
