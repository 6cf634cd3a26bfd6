"""Loading a whole model by transformers, so that it can read sentences."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from engine.models.broken import blank
from engine.models.devices import lacks_memory
from engine.models.library_config import library_config, model_options
from engine.models.source import Loaded
from engine.models.tokens import first_line, silence
from engine.models.waiting import computing_device
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
    """Choose the class to load: a type's bare model where that is a part of the class the checkpoint names, else that.

    A decoder that was saved without its encoder, for instance, is no part of its type's bare model. Code that comes
    with a model names its own classes, and a GGUF file has no configuration beside it.
    """
    if "gguf_file" in options or options.get("trust_remote_code"):
        return transformers.AutoModel
    config = library_config(directory)
    found = transformers.AutoModel._model_mapping.get(type(config), ())
    bare = found if isinstance(found, tuple) else (found,)
    named = next(filter(None, (class_named(name, config) for name in config.architectures or ())), None)
    if named is None or named in bare:
        return named or transformers.AutoModel
    if bare:
        with torch.device("meta"):
            whole = named(config)
        if type(getattr(whole, whole.base_model_prefix, None)) in bare:
            return transformers.AutoModel
    return named


def class_named(name: str, config: Any) -> Any:
    """Find a class of models of transformers, offered by itself or not, that takes such a configuration, if any."""
    try:
        own = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        own = None
    for module in (transformers, own):
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found if isinstance(config, found.config_class or ()) else None
    return None


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
        with model_options(directory, options):
            chosen = model_class(directory, options)
        with model_options(directory, options) as checked:
            model, loading = chosen.from_pretrained(
                directory,
                attn_implementation="eager",
                dtype=dtype if dtype == "auto" else getattr(torch, dtype),
                local_files_only=True,
                output_loading_info=True,
                **checked,
            )
        blank(model, loading["missing_keys"])
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
        why = first_line(error)
        if not isinstance(error, EngineError):
            why = f"transformers cannot make it of its config.json and weights ({why})"
        raise EngineError(f"{name} cannot run a sentence: {why}; its spectra work all the same") from error
