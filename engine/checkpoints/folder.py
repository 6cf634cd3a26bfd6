"""A model in a folder written by ``save_pretrained``: tensors by name, and the whole model when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.outline import Anatomy, noting_lost, read_anatomy
from engine.architectures.tensors import Tensors
from engine.checkpoints.json_files import read_config
from engine.checkpoints.library_imports import IMPORTING
from engine.checkpoints.locate import Location
from engine.checkpoints.memory import sentence_need
from engine.checkpoints.quantised_weights import dequantised
from engine.checkpoints.size_bounds import check_sizes
from engine.checkpoints.tensor_reader import Checkpoint, OpenedFiles, stamps
from engine.values.errors import EngineError
from engine.values.memory import SentenceNeed
from engine.values.outline import Parameter

if TYPE_CHECKING:
    from torch import Tensor


DEFAULTS_USED = "config.json leaves out what shapes the heads; the defaults of its type are taken, as transformers does"
"""Said of a model whose heads are counted by settings that are not written down."""


class FolderSource:
    """A folder's checkpoint, of which no more is read than is asked for."""

    def __init__(self, location: Location, trust_remote_code: bool = False) -> None:
        self.location = location
        self.trust_remote_code = trust_remote_code
        self._checkpoint = Checkpoint(location.directory)
        self._config = read_config(location.directory)
        check_sizes(self._config, self._checkpoint.entries, str(location.directory / "config.json"))
        self.tensors: Tensors = dequantised(self._checkpoint, self._config, location.name)
        self.anatomy: Anatomy = self._take_what_is_there_apart()

    def _take_what_is_there_apart(self) -> Anatomy:
        """Find the heads, also of a model of which some files are missing, and say so."""
        lost = self._checkpoint.lost
        try:
            return noting_lost(self._take_apart(self._config), lost)
        except EngineError as error:
            if not lost:
                raise
            raise EngineError(next(iter(lost.values()))) from error  # too little is there to know the rest by

    def _take_apart(self, config: Mapping[str, Any]) -> Anatomy:
        """Find the heads by the names in the files, or else by those that transformers gives the tensors."""
        name, where = self.location.name, str(self.location.directory)
        try:
            return read_anatomy(name, where, config, self.tensors.entries)
        except EngineError as by_stored_names:
            with IMPORTING:
                from engine.checkpoints.converted_tensors import with_model_names
                from engine.checkpoints.transformers_library import complete_config

            with suppress(EngineError):
                complete = complete_config(self.location.directory)
                with suppress(EngineError):
                    return read_anatomy(name, where, complete, self.tensors.entries, (DEFAULTS_USED,))
                own_names = with_model_names(self.tensors, self.location.directory)
                anatomy = read_anatomy(name, where, complete, own_names.entries)
                self.tensors = own_names
                return anatomy
            raise by_stored_names

    @property
    def identity(self) -> str:
        """The files, their sizes and times; their content is not read."""
        known_by = (*self._checkpoint.files, self.location.directory / "config.json")  # it says how many heads
        return f"{self.location.identity};{stamps(known_by)}"

    @property
    def opened(self) -> OpenedFiles:
        """The weight files as they were when the model was opened."""
        return self._checkpoint.opened

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold the weights."""
        return self._checkpoint.files

    def sentence_need(self, dtype: str) -> SentenceNeed:
        """Estimate what reading a sentence takes; tensors that are used under their own names can stay in the files."""
        is_mapped = self.tensors is self._checkpoint
        entries = self._checkpoint.entries
        return sentence_need(self.anatomy.outline, entries, self._config, dtype, is_mapped=is_mapped)

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the tensors as stored, and the names that the model ties to one of them."""
        from engine.checkpoints.parameters import list_parameters

        return list_parameters(self.tensors.entries, self.location.directory if with_ties else None)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of a listed tensor."""
        return self.tensors.parts(name)

    def settings(self) -> Mapping[str, Any]:
        """Give ``config.json`` with the defaults that transformers fills in, where it knows the type."""
        with IMPORTING:
            from engine.checkpoints.transformers_library import complete_config

        directory = self.location.directory
        try:
            return complete_config(directory)
        except EngineError:
            return read_config(directory)
