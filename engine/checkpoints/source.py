"""The source of a model, a folder written by ``save_pretrained`` or a GGUF file, and the list of its tensors."""

from __future__ import annotations

import importlib.util
import re
from abc import ABC
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.outline import Anatomy, note_lost_files, read_anatomy
from engine.architectures.tensors import ModuleTensors, TensorEntry, Tensors
from engine.checkpoints.converted_tensors import dequantise
from engine.checkpoints.model_folders import MISTYPED, read_config
from engine.checkpoints.tensor_reader import Checkpoint, OpenedFiles, file_stamps
from engine.checkpoints.transformers_library import (
    class_of_config,
    complete_config,
    empty_model,
    library_config,
    load_pretrained,
    rename_tensors,
    settings_of_config,
)
from engine.values.errors import EngineError
from engine.values.memory import SENTENCE_TOKENS, SentenceNeed
from engine.values.outline import Parameter

if TYPE_CHECKING:
    from torch import Tensor, nn

MERGED = re.compile(r"\.experts\.\d+\.")
"""In names of tensors that transformers merges with others when it loads them, which copies them."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a model was found.

    Attributes
    ----------
    name : as the person typed it.
    directory : the folder with ``config.json`` and the weights.
    """

    name: str
    directory: Path


class Source(ABC):
    """A model whose heads are known, and which may be able to read sentences.

    Attributes
    ----------
    tensors : its tensors by name.
    anatomy : which of them belong to each layer's attention.
    opened : the files with its weights, as they were when it was opened; none if they are in memory.
    descriptions : files that say how the weights belong to heads.
    """

    tensors: Tensors
    anatomy: Anatomy
    opened = OpenedFiles(())
    descriptions: tuple[Path, ...] = ()

    @property
    def identity(self) -> str | None:
        """The files, their sizes and times, without their content; None if it has none, so that nothing is cached."""
        return file_stamps((*self.opened.files, *self.descriptions)) if self.opened.files else None

    def sentence_need(self, dtype: str) -> SentenceNeed | None:
        """Estimate the memory for reading a sentence; None if the model is in memory already, or cannot be run."""
        return None

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List its tensors, and the names that the model ties to one of them.

        Finding ties can take seconds; without ``with_ties`` only those are listed that are known at once.
        """
        return stored_parameters(self.tensors.entries)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Iterate over the numbers of a listed tensor, at most `engine.architectures.tensors.PART` at a time.

        Raises `EngineError` when it cannot be read.
        """
        return self.tensors.parts(name)

    def settings(self) -> Mapping[str, Any]:
        """Return its configuration with the defaults of its type; empty if it has none."""
        return {}

    def setting(self, name: str) -> Any:
        """Return one setting of its configuration, None if it has none."""
        return self.settings().get(name)


class FolderSource(Source):
    """The checkpoint of a folder, read only as far as needed."""

    def __init__(self, location: Location, trust_remote_code: bool = False) -> None:
        self.location = location
        self.trust_remote_code = trust_remote_code
        self._checkpoint = Checkpoint(location.directory)
        self.opened, self.descriptions = self._checkpoint.opened, (location.directory / "config.json",)
        self._config = read_config(location.directory)
        lost = self._checkpoint.lost
        try:
            self.tensors = dequantise(self._checkpoint, self._config, location.name)
            self.anatomy = note_lost_files(self._find_anatomy(), lost)
        except EngineError as error:
            if not lost:
                raise
            raise EngineError(next(iter(lost.values()))) from error  # too few files are left to infer the others
        except MISTYPED as error:
            file = location.directory / "config.json"
            raise EngineError(
                f"{file} has settings that attn-tui cannot read ({error}); save the model again"
            ) from error

    def _find_anatomy(self) -> Anatomy:
        """Find the heads by the names in the files, or else by the names that transformers gives the tensors."""
        name, directory = self.location.name, self.location.directory
        try:
            return read_anatomy(name, str(directory), self._config, self.tensors.entries)
        except EngineError as by_stored_names:
            with suppress(EngineError):
                complete = complete_config(directory)
                by_default = (
                    "config.json does not give the shape of the heads; attn-tui uses the defaults of its type, "
                    "as transformers does"
                )
                with suppress(EngineError):
                    return read_anatomy(name, str(directory), complete, self.tensors.entries, (by_default,))
                own_names = rename_tensors(self.tensors, directory)
                anatomy = read_anatomy(name, str(directory), complete, own_names.entries)
                self.tensors = own_names
                return anatomy
            raise by_stored_names

    def sentence_need(self, dtype: str) -> SentenceNeed:
        """Estimate the memory for reading a sentence in ``dtype``, as ``--dtype`` takes it.

        ``auto`` is the dtype of the configuration, or else the stored one. Tensors that are used as stored, under their
        own names, stay in the files.
        """
        outline, config, entries = self.anatomy.outline, self._config, self._checkpoint.entries
        named = config.get("dtype") or config.get("torch_dtype")
        chosen = dtype if dtype != "auto" else named if isinstance(named, str) else outline.dtype
        weights = mapped = 0
        is_quantised = bool(config.get("quantization_config"))
        for name, entry in entries.items():
            is_plain = entry.dtype.startswith(("float", "bfloat")) and "float8" not in entry.dtype
            takes = replace(entry, dtype=chosen).stored_bytes if is_plain and not is_quantised else entry.stored_bytes
            weights += takes
            is_as_stored = self.tensors is self._checkpoint and not is_quantised and entry.dtype == chosen
            mapped += takes if is_as_stored and MERGED.search(name) is None else 0
        tokens = min(outline.context or SENTENCE_TOKENS, SENTENCE_TOKENS)
        most = max(layer.heads for layer in outline.layers)
        maps = most * tokens**2 * (TensorEntry((1,), chosen).stored_bytes + TensorEntry((1,), "float32").stored_bytes)
        smaller = "bfloat16" if chosen == "float32" and not is_quantised else ""
        if dtype != "auto" and weights > sum(entry.stored_bytes for entry in entries.values()):
            smaller = "auto"
        return SentenceNeed(weights, mapped, maps, chosen, smaller, tokens)

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the tensors as stored, and the names that the model ties to one of them.

        A tied name (``lm_head.weight``) usually has no tensor of its own in the files; its row names the one it shares.
        """
        entries = self.tensors.entries
        ties = _ties(self.location.directory, entries) if with_ties else {}
        result = [replace(each, tied_to=ties.get(each.name, "")) for each in stored_parameters(entries)]
        for name in ties.keys() - entries.keys():
            source = entries[ties[name]]
            result.append(Parameter(name, source.shape, source.dtype, 0, ties[name]))
        return tuple(sorted(result, key=_reading_order))

    def settings(self) -> Mapping[str, Any]:
        """Return ``config.json``, with transformers' defaults if it knows the type."""
        try:
            return complete_config(self.location.directory)
        except EngineError:
            return read_config(self.location.directory)

    def setting(self, name: str) -> Any:
        """Return one setting; transformers, which takes seconds to import, is asked only for what is not written."""
        written = read_config(self.location.directory)
        is_plain = name in written and "text_config" not in written  # else another part's default may come first
        return written[name] if is_plain else super().setting(name)


class GgufSource(Source):
    """A GGUF file. transformers loads the whole model and undoes what the format does to names and rows."""

    def __init__(self, name: str, file: Path) -> None:
        if any(importlib.util.find_spec(package) is None for package in ("gguf", "accelerate")):
            raise EngineError(f"{name} is a GGUF file; to read it: pip install 'attn-tui[gguf]'")
        self.name, self.file, self.opened = name, file, OpenedFiles([file])
        try:
            self.model = load_pretrained(file.parent, "float32", gguf_file=file.name).eval()
        except Exception as error:  # whatever the loader raises
            raise EngineError(f"{file} cannot be read by transformers: {error}") from error
        self.tensors = ModuleTensors(self.model)
        decoded = "the weights of a GGUF file are shown decoded, in float32"
        anatomy = read_anatomy(name, str(file), self.settings(), self.tensors.entries, (decoded,))
        self.anatomy = count_parameters(anatomy, self.model)

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the tensors under the names that transformers gives them."""
        return module_parameters(self.model)

    def settings(self) -> Mapping[str, Any]:
        """Return the configuration that transformers makes from the file."""
        return settings_of_config(self.model.config)


def stored_parameters(entries: Mapping[str, TensorEntry]) -> tuple[Parameter, ...]:
    """List tensors as stored, in reading order."""
    stored = (Parameter(name, entry.shape, entry.dtype, entry.stored_bytes) for name, entry in entries.items())
    return tuple(sorted(stored, key=_reading_order))


def module_parameters(module: nn.Module) -> tuple[Parameter, ...]:
    """List the parameters of a module in memory; a second name of a parameter is tied to the first."""
    first: dict[int, str] = {}
    result = []
    for name, parameter in module.named_parameters(remove_duplicate=False):
        source = first.setdefault(id(parameter), name)
        dtype = str(parameter.dtype).removeprefix("torch.")
        is_own = source == name
        own_bytes = parameter.nbytes if is_own else 0
        result.append(Parameter(name, tuple(parameter.shape), dtype, own_bytes, "" if is_own else source))
    return tuple(sorted(result, key=_reading_order))


def count_parameters(anatomy: Anatomy, module: nn.Module) -> Anatomy:
    """Count a module's parameters in its outline, those with several names once."""
    own = list(module.parameters())
    count, stored_bytes = sum([each.numel() for each in own]), sum([each.nbytes for each in own])
    return replace(anatomy, outline=replace(anatomy.outline, parameters=count, stored_bytes=stored_bytes))


def _reading_order(parameter: Parameter) -> list[tuple[int, str]]:
    """Compare dotted names with numbers by value: layer 2 before layer 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parameter.name.split(".")]


def _ties(directory: Path, entries: Mapping[str, TensorEntry]) -> dict[str, str]:
    """Map names that share a tensor, according to the model's own class, to the first of them that is stored."""
    try:
        config = library_config(directory)
        named = class_of_config(config)
        if named is None:
            return {}
        model = empty_model(named, config)
        model.tie_weights()
    except Exception:  # if the class cannot be built, the table lists no ties
        return {}
    # A checkpoint saved from the base model lacks the prefix that the model with a head has.
    prefix = f"{model.base_model_prefix}."
    names_of: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names_of.setdefault(id(parameter), []).append(name if name in entries else name.removeprefix(prefix))
    ties: dict[str, str] = {}
    for several in names_of.values():
        source = next((name for name in several if name in entries), None)
        if source is not None:
            ties |= {name: source for name in several if name != source}
    return ties
