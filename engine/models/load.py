"""Loading a whole model by transformers, so that it can read sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from engine.models.source import Loaded
from engine.models.tokens import Tokenizer, silence, visible
from engine.values.errors import EngineError


def first_line(error: BaseException) -> str:
    """Take the part of an error's text that fits one line."""
    return visible(str(error).strip().partition("\n")[0]) or type(error).__name__


def load_folder(name: str, directory: Path, device: str, dtype: str, trust_remote_code: bool) -> Loaded:
    """Load a folder's tokenizer and model.

    Raises
    ------
    EngineError : when either cannot be loaded, saying why.
    """
    words = Tokenizer.of_folder(directory, trust_remote_code)
    return Loaded(load_model(name, directory, device, dtype, trust_remote_code=trust_remote_code), words, device)


def load_model(name: str, directory: Path, device: str, dtype: str, **options: Any) -> Any:
    """Load a folder's model alone; ``options`` go to ``from_pretrained``.

    Raises
    ------
    EngineError : when it cannot be loaded, or does not fit.
    """
    silence()
    try:
        model = transformers.AutoModel.from_pretrained(
            directory,
            attn_implementation="eager",
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            local_files_only=True,
            **options,
        )
        return model.to(device).eval()
    except torch.OutOfMemoryError as error:
        raise EngineError(f"{name} does not fit on {device}; try --device cpu or --dtype bfloat16") from error
    except Exception as error:  # whatever a model's own loading code raises
        raise EngineError(
            f"{name} cannot run a sentence: {first_line(error)}; its spectra work all the same"
        ) from error
