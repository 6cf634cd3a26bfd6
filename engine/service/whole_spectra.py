"""The singular values of layers as a whole, matrix by matrix: those that fit into memory, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.service.kept_spectra import KeptSpectra
from engine.service.layers import Breathe, Layers, Values
from engine.service.loading import torch_import
from engine.service.whole_layers import room_for
from engine.values.errors import EngineError
from engine.values.model import LayerOutline


@dataclass(frozen=True)
class WholeLayer:
    """What there is of a layer as a whole.

    Attributes
    ----------
    values : by matrix, (1, rank), with the norms of factors whose own values are left out.
    lacking : why matrices are left out; empty where none is.
    """

    values: Values
    lacking: str


class WholeSpectra:
    """Singular values of layers as a whole, from disk or computed.

    Parameters
    ----------
    layers : computes them.
    kept : those on disk, to which others are added.
    notify : told in a sentence what the first layer takes, before it is begun, where that is much.
    is_browsing : whether what takes much is left out, unless it is on disk.
    """

    def __init__(self, layers: Layers, kept: KeptSpectra, notify: Callable[[str], None], is_browsing: bool) -> None:
        self._layers = layers
        self._kept = kept
        self._notify = notify
        self._is_browsing = is_browsing
        self._has_told = False

    def of_weights(self, layer: LayerOutline, file: str, wanted: Sequence[str], breathe: Breathe) -> WholeLayer:
        """Give matrices of a layer, which are kept under the name of a file: from disk, or computed where they may be.

        Raises
        ------
        EngineError : when none of them is to be had.
        """
        values = self._kept.load(file, 1)
        missing, lacking = tuple(matrix for matrix in wanted if matrix not in values), ""
        if missing and layer.is_large:
            room = room_for(layer, missing, self._is_browsing)
            lacking = room.lacking
            if not room.fitting and len(missing) == len(wanted):
                raise EngineError(lacking)
            missing = room.fitting
            if room.notice and not self._has_told:  # other layers of the model take the same
                self._has_told = True
                self._notify(room.notice)
        if missing:
            torch_import.wait(breathe)
            values |= self._layers.whole(layer, missing, breathe)
            self._kept.save(file, values)
        return WholeLayer(values, lacking)
