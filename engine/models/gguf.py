"""A model in a GGUF file, read by transformers' own loader, which undoes what the format does to names and rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.outline import Anatomy, read_anatomy
from engine.architectures.tensors import Tensors
from engine.models.stamps import stamps
from engine.values.errors import EngineError
from engine.values.model import Parameter

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.maps import MapReader
    from engine.models.source import Words

SUFFIX = ".gguf"

PACKAGES = ("gguf", "accelerate")
"""What transformers reads such files with."""

DEQUANTISED = "the weights of a GGUF file are shown in float32, as what they stand for"
"""Said of every such model: the precision they are stored in is not that of the spectra."""


def gguf_file(place: Path) -> Path | None:
    """Find the GGUF file that a path names: itself, or the only one in a folder without ``config.json``.

    Raises
    ------
    EngineError : when a folder has several.
    """
    if place.suffix == SUFFIX and place.is_file():
        return place
    if not place.is_dir() or (place / "config.json").is_file():
        return None
    files = sorted(place.glob(f"*{SUFFIX}"))
    if len(files) > 1:
        raise EngineError(f"{place} has {len(files)} GGUF files; name one of them, such as {files[0]}")
    return files[0] if files else None


class GgufSource:
    """A GGUF file. The whole model is loaded when it is opened: its tensors cannot be cut as they are stored."""

    def __init__(self, name: str, file: Path) -> None:
        if any(importlib.util.find_spec(package) is None for package in PACKAGES):
            raise EngineError(f"{name} is a GGUF file; to read it: pip install 'attn-tui[gguf]'")
        from engine.models.load import load_model
        from engine.models.renamed import ModuleTensors, completed

        self.identity: str | None = stamps((file.resolve(),))
        self._name, self._file = name, file
        try:
            self._model = load_model(name, file.parent, "cpu", "float32", gguf_file=file.name)
        except EngineError as error:
            raise EngineError(f"{file} cannot be read by transformers: {error.__cause__}") from error
        self.tensors: Tensors = ModuleTensors(self._model)
        config = completed(self._model.config)
        self.anatomy: Anatomy = read_anatomy(name, str(file), config, self.tensors.entries, (DEQUANTISED,))

    @property
    def files(self) -> tuple[Path, ...]:
        """The one file."""
        return (self._file,)

    def sentence_need(self, dtype: str) -> None:
        """Nothing: the model is in memory."""

    def reader(self, device: str, dtype: str) -> MapReader:
        """Read sentences with the model that is there, and the tokenizer that the file holds."""
        import torch

        from engine.models.sentence import Reader
        from engine.models.source import Loaded

        words = self.words()
        kind = torch.float32 if dtype == "auto" else getattr(torch, dtype)
        if device == "cpu" and kind == torch.float32:
            return Reader(self.anatomy, Loaded(self._model, words, device))
        from engine.models.load import load_model

        model = load_model(self._name, self._file.parent, device, str(kind).removeprefix("torch."),
                           gguf_file=self._file.name)  # fmt: skip
        return Reader(self.anatomy, Loaded(model, words, device))

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the tensors under the names that transformers gives them."""
        from engine.models.parameters import module_parameters

        return module_parameters(self._model)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of a listed tensor."""
        return self.tensors.parts(name)

    def settings(self) -> Mapping[str, Any]:
        """Give the configuration that transformers makes of the file."""
        from engine.models.renamed import completed

        return completed(self._model.config)

    def words(self) -> Words:
        """Load the tokenizer that the file holds."""
        from engine.models.tokens import Tokenizer

        return Tokenizer.of_folder(self._file.parent, gguf_file=self._file.name)
