"""Loading a model to read sentences: a folder, an adapter on its base, or GGUF, on one device or over several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import singledispatch
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from engine.checkpoints.adapter import AdapterSource
from engine.checkpoints.layout import LayoutSource
from engine.checkpoints.source import FolderSource, GgufSource, Source
from engine.checkpoints.transformers_library import first_line, load_pretrained
from engine.models.devices import computing_device, lacks_memory
from engine.models.loaded_model import LoadedModules
from engine.models.reader import MapReader, Reader
from engine.models.tokenizer import Tokenizer, TokenNumbers, Words, words_of_folder
from engine.values.errors import EngineError
from engine.values.memory import ACROSS_DEVICES


@singledispatch
def load_reader(source: Source, device: str, dtype: str) -> MapReader:
    """Load a model to read sentences; `EngineError` says why it cannot run.

    The device is one of torch's names or `engine.values.memory.ACROSS_DEVICES`; the dtype ``auto`` is the stored one.
    """
    raise NotImplementedError(type(source))


@singledispatch
def words_of(source: Source) -> Words:
    """Load a model's tokenizer without the model; `EngineError` when none opens."""
    raise NotImplementedError(type(source))


@load_reader.register
def _(source: FolderSource, device: str, dtype: str) -> MapReader:
    location = source.location
    if source.anatomy.outline.unreadable:
        raise EngineError(source.anatomy.outline.unreadable)
    if not location.directory.is_dir():
        raise EngineError(f"{location.directory} is not there any more; put it back, and read the sentence again")
    source.opened.check()
    words = words_of(source)
    options = {"trust_remote_code": source.trust_remote_code}
    model = load_model(location.name, location.directory, device, dtype, **options)
    source.opened.check()  # loading takes a while
    return Reader(source.anatomy, model, words, input_device(model) if device == ACROSS_DEVICES else device)


@words_of.register
def _(source: FolderSource) -> Words:
    return words_of_folder(source.location.directory, source.trust_remote_code)


@load_reader.register
def _(source: AdapterSource, device: str, dtype: str) -> MapReader:
    reader = load_reader(source.base, device, dtype)
    assert isinstance(reader, Reader)
    _merge_adapter(reader.model, source)
    return reader


@words_of.register
def _(source: AdapterSource) -> Words:
    return words_of(source.base)


@load_reader.register
def _(source: GgufSource, device: str, dtype: str) -> MapReader:
    kind = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    words = words_of(source)
    if device == "cpu" and kind == torch.float32:
        return Reader(source.anatomy, source.model, words, device)
    options = {"gguf_file": source.file.name}
    model = load_model(source.name, source.file.parent, device, str(kind).removeprefix("torch."), **options)
    return Reader(source.anatomy, model, words, device)


@words_of.register
def _(source: GgufSource) -> Words:
    return Tokenizer.of_folder(source.file.parent, gguf_file=source.file.name)


@load_reader.register
def _(source: LayoutSource, device: str, dtype: str) -> MapReader:
    raise EngineError("a state dict has no model to run; open the model in Python with tui.explore")


@words_of.register
def _(source: LayoutSource) -> Words:
    return TokenNumbers()


@contextmanager
def reporting_weights(report: Callable[[int, int], None]) -> Iterator[None]:
    """Report how many bytes of a model's weights this thread has loaded, and of how many.

    A model is made without memory first, and then each weight is put in its place.
    """
    own, made, done = threading.get_ident(), 0, 0

    def count(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal made, done
        if parameter is None or threading.get_ident() != own:
            return
        if parameter.is_meta:
            made += parameter.nbytes
        elif made:
            done += parameter.nbytes
            report(done, made)

    with register_module_parameter_registration_hook(count):
        yield


def input_device(model: Any) -> str:
    """Give the device on which the embeddings of a model over several devices compute."""
    return str(computing_device(model.get_input_embeddings()))


def load_model(name: str, directory: Path, device: str, dtype: str, **options: Any) -> Any:
    """Load a folder's model without its tokenizer; ``options`` go to ``from_pretrained``.

    With `ACROSS_DEVICES` accelerate fills one GPU after another and then main memory. Raises `EngineError` when the
    model cannot be built or does not fit.
    """
    is_spread = device == ACROSS_DEVICES
    if is_spread:
        options = {"device_map": "auto", **options}
    try:
        model = load_pretrained(directory, dtype, **options)
        return (model if is_spread else model.to(device)).eval()
    except Exception as error:  # whatever a model's own loading code raises
        where = "into the GPUs and main memory" if is_spread else f"on {device}"
        if isinstance(error, RuntimeError) and lacks_memory(error):
            raise EngineError(f"{name} does not fit {where}; try --device cpu or --dtype bfloat16") from error
        if is_spread and "offload_folder" in str(error):
            raise EngineError(
                f"{name} does not fit {where}, and the rest cannot stay in its files, which keep it in another form; "
                "its spectra still work; try --dtype bfloat16 or a machine with more memory"
            ) from error
        why = first_line(error)
        if not isinstance(error, EngineError):
            why = f"transformers cannot build it from its config.json and weights ({why})"
        raise EngineError(f"{name} cannot run a sentence: {why}; its spectra still work") from error


def _merge_adapter(model: nn.Module, source: AdapterSource) -> None:
    """Change weights in place; `EngineError` when the base packs one, or it is spread over devices."""
    loaded, name = LoadedModules(model), source.location.name
    for change in source.changes:
        module = loaded.named.get(loaded.find(change.module) or "")
        weight = getattr(module, "weight", None)
        if module is None and "lm_head" in change.module:
            continue  # reading sentences needs no head
        if not isinstance(weight, nn.Parameter) or not weight.is_floating_point():
            raise EngineError(
                f"{name} changes {change.module}, which the loaded base model packs; use an unquantised base"
            )
        if weight.is_meta:
            raise EngineError(
                f"{name} cannot be added to weights that are spread over GPUs and main memory; merge it first: "
                "model = model.merge_and_unload()"
            )
        with torch.no_grad():
            weight.copy_(weight.double() + change.delta(weight.detach()))
    for wanted, stored in source.replaced.items():
        path, _, kind = wanted.rpartition(".")
        parameter = getattr(loaded.named.get(loaded.find(path) or ""), kind, None)
        if isinstance(parameter, nn.Parameter):
            with torch.no_grad():
                parameter.copy_(source.adapter.read(stored))
