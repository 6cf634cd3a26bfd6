"""A model in a GGUF file, read by transformers' own loader, which undoes what the format does to names and rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.outline import Anatomy, read_anatomy
from engine.architectures.tensors import Tensors
from engine.checkpoints.tensor_reader import stamps
from engine.values.errors import EngineError
from engine.values.outline import Parameter

if TYPE_CHECKING:
    from torch import Tensor


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
        from engine.checkpoints.converted_tensors import ModuleTensors
        from engine.checkpoints.transformers_library import completed, load_pretrained

        self.identity: str | None = stamps((file.resolve(),))
        self.name, self.file = name, file
        try:
            self.model = load_pretrained(file.parent, "float32", gguf_file=file.name).eval()
        except Exception as error:  # whatever the loader raises
            raise EngineError(f"{file} cannot be read by transformers: {error}") from error
        self.tensors: Tensors = ModuleTensors(self.model)
        config = completed(self.model.config)
        self.anatomy: Anatomy = read_anatomy(name, str(file), config, self.tensors.entries, (DEQUANTISED,))

    @property
    def files(self) -> tuple[Path, ...]:
        """The one file."""
        return (self.file,)

    def sentence_need(self, dtype: str) -> None:
        """Nothing: the model is in memory."""

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the tensors under the names that transformers gives them."""
        from engine.checkpoints.parameters import module_parameters

        return module_parameters(self.model)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of a listed tensor."""
        return self.tensors.parts(name)

    def settings(self) -> Mapping[str, Any]:
        """Give the configuration that transformers makes of the file."""
        from engine.checkpoints.transformers_library import completed

        return completed(self.model.config)
