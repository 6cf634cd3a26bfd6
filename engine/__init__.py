"""The engine of attn-tui: models, weights, mathematics and attention, with no knowledge of any screen.

Its floors, from the ground up: ``values``, ``mathematics`` and ``architectures``, ``checkpoints``, ``models``,
``analysis``, ``service``; imports only go down. Nothing on the way to the first frame imports torch.

`open_model` and `open_module` are for notebooks and scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from engine.library import Model

__all__ = ["open_model", "open_module"]


def open_model(
    name: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    base: str | None = None,
    layout: str | Path | None = None,
    trust_remote_code: bool = False,
    use_cache: bool = True,
) -> Model:
    """Open a model: its files are found, or downloaded, and their headers are read.

    Parameters
    ----------
    name : an id on the Hugging Face Hub, a folder, a GGUF file, or ``"demo"``.
    device : ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
    dtype : in which the model reads sentences; ``auto`` keeps the stored one. Spectra are always float64.
    revision : branch, tag or commit of a model of the Hub.
    base : the model that an adapter changes; None takes the one that the adapter names.
    layout : a file that describes the heads of a bare state dict.
    trust_remote_code : whether code that comes with the model may run.
    use_cache : whether spectra are kept on disk between runs.

    Raises
    ------
    EngineError : when it cannot be found, read, or taken apart into heads.

    Examples
    --------
    >>> model = open_model("demo")
    >>> model.spectrum("L0H1", "OV").shape
    (32,)
    """
    from engine.library import open_model

    return open_model(
        name, device=device, dtype=dtype, revision=revision, base=base, layout=layout,
        trust_remote_code=trust_remote_code, use_cache=use_cache,
    )  # fmt: skip


def open_module(
    module: nn.Module, tokenizer: Any = None, *, name: str = "", example: Any = None, device: str = "auto"
) -> Model:
    """Open a PyTorch model that is in memory: of transformers, ``nn.MultiheadAttention``, or written by hand.

    A model of transformers is taken apart by the same rules as a checkpoint. Any other is called once, and its heads
    are found by how it computes, whatever its projections are called. Nothing of it is changed, and everything is
    computed of its weights as they are when it is asked for.

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
    >>> model["L0H1"].W_Q.shape
    (8, 32)
    """
    from engine.library import open_module

    return open_module(module, tokenizer, name=name, example=example, device=device)
