"""Loading a whole model by transformers, so that it can read sentences."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from engine.models.devices import lacks_memory
from engine.models.source import Loaded
from engine.models.tokens import first_line, silence
from engine.models.waiting import computing_device, fill_missing
from engine.models.words import words_of_folder
from engine.values.errors import EngineError
from engine.values.memory import ACROSS_DEVICES


def load_folder(name: str, directory: Path, device: str, dtype: str, trust_remote_code: bool) -> Loaded:
    """Load a folder's tokenizer and model.

    Raises
    ------
    EngineError : when either cannot be loaded, saying why.
    """
    words = words_of_folder(directory, trust_remote_code)
    model = load_model(name, directory, device, dtype, trust_remote_code=trust_remote_code)
    return Loaded(model, words, input_device(model) if device == ACROSS_DEVICES else device)


def input_device(model: Any) -> str:
    """Say where a model that is spread over devices wants its token ids: where its embeddings compute."""
    return str(computing_device(model.get_input_embeddings()))


def model_class(directory: Path, options: Mapping[str, Any]) -> Any:
    """Choose the class to load: the one of a type's bare model, or, where a type has none, the one it was saved from.

    Code that comes with a model names its own classes, and a GGUF file has no configuration beside it.
    """
    if "gguf_file" in options or options.get("trust_remote_code"):
        return transformers.AutoModel
    config = transformers.AutoConfig.from_pretrained(directory, local_files_only=True)
    if type(config) in transformers.AutoModel._model_mapping:
        return transformers.AutoModel
    found = [class_named(name, config) for name in config.architectures or ()]
    return next((each for each in found if each is not None), transformers.AutoModel)


def class_named(name: str, config: Any) -> Any:
    """Find a class of transformers, which may be one that it does not offer by itself; None where there is none."""
    if hasattr(transformers, name):
        return getattr(transformers, name)
    try:
        module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return None
    return getattr(module, name, None)


def load_model(name: str, directory: Path, device: str, dtype: str, **options: Any) -> Any:
    """Load a folder's model alone; ``options`` go to ``from_pretrained``.

    With `ACROSS_DEVICES` accelerate fills one GPU after the other and then main memory.

    Raises
    ------
    EngineError : when it cannot be loaded, or does not fit.
    """
    silence()
    is_spread = device == ACROSS_DEVICES
    if is_spread:
        options = {"device_map": "auto", **options}
    try:
        model = model_class(directory, options).from_pretrained(
            directory,
            attn_implementation="eager",
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            local_files_only=True,
            **options,
        )
        if is_spread:
            fill_missing(model)
        return (model if is_spread else model.to(device)).eval()
    except Exception as error:  # whatever a model's own loading code raises
        where = "into the GPUs and main memory" if is_spread else f"on {device}"
        if isinstance(error, RuntimeError) and lacks_memory(error):
            raise EngineError(f"{name} does not fit {where}; try --device cpu or --dtype bfloat16") from error
        if is_spread and "offload_folder" in str(error):
            raise EngineError(
                f"{name} does not fit {where}, and the rest cannot stay in its files, which keep it in another form; "
                "its spectra work all the same; try --dtype bfloat16 or a machine with more memory"
            ) from error
        raise EngineError(
            f"{name} cannot run a sentence: {first_line(error)}; its spectra work all the same"
        ) from error
