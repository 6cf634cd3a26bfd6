"""What the screen has learned of a model so far; plain values, no widgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.mathematics.chance import chance_measure
from engine.mathematics.measures import Measure
from engine.mathematics.tabulate import rank_rows
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.model import LayerOutline, ModelOutline
from engine.values.spectra import Baseline, SpectraGroup, Spectrum
from engine.values.tables import Cell

GroupKey = tuple[Head, bool]
"""A layer's name, and whether the layer as a whole is meant."""


class Knowledge:
    """Spectra, baselines and measured rows by layer, as they come in from the engine."""

    def __init__(self, outline: ModelOutline) -> None:
        self.outline = outline
        self._groups: dict[GroupKey, SpectraGroup | EngineError] = {}
        self._heads: dict[Head, Mapping[str, Spectrum]] = {}
        self._baselines: dict[GroupKey, Baseline] = {}
        self._rows: dict[tuple[GroupKey, float], list[tuple[Cell, ...]]] = {}

    def learn(self, layer: Head, whole_layer: bool, answer: SpectraGroup | EngineError) -> None:
        """Keep spectra, or why there are none."""
        self._groups[layer.whole_layer, whole_layer] = answer
        if not whole_layer:
            self._heads = {head: known for head, known in self._heads.items() if head.whole_layer != layer.whole_layer}

    def learn_head(self, head: Head, spectra: Sequence[Spectrum]) -> None:
        """Keep one head's spectra, which come before those of its layer."""
        self._heads[head] = {spectrum.matrix: spectrum for spectrum in spectra}

    def learn_baseline(self, layer: LayerOutline, whole_layer: bool, baseline: Baseline) -> None:
        """Keep a baseline for every layer of the same shape."""
        for each in self.outline.layers:
            if not each.is_change and all(
                each.shape(matrix, whole_layer) == layer.shape(matrix, whole_layer) for matrix in baseline.draws
            ):
                self._baselines[each.name, whole_layer] = baseline

    def has(self, layer: Head, whole_layer: bool) -> bool:
        """Say whether the spectra, or the reason why there are none, are known."""
        return (layer.whole_layer, whole_layer) in self._groups

    def spectra(self, name: Head) -> Mapping[str, Spectrum] | None:
        """Give the spectra of a head, or of a whole layer, by matrix; None while they are not known.

        Raises
        ------
        EngineError : when they cannot be had.
        """
        group = self._groups.get((name.whole_layer, name.is_layer))
        if isinstance(group, EngineError):
            raise group
        return self._heads.get(name) if group is None else group.spectra[name.head]

    def baseline(self, name: Head) -> Baseline | None:
        """Give the baseline of a head, or of a whole layer."""
        return self._baselines.get((name.whole_layer, name.is_layer))

    def names_beside(self, name: Head | None) -> tuple[Head, ...]:
        """List what stands in one ranks table: a layer's heads and the layer, or for a model its whole layers."""
        if name is None:
            return tuple(layer.name for layer in self.outline.layers)
        layer = self.outline.layer(name)
        return (*layer.head_names(), layer.name)

    def rows(self, names: Sequence[Head], epsilon: float) -> list[tuple[Cell, ...]]:
        """Measure the spectra that are known of these names: rows of the ``ranks`` table, in their order."""
        rows: list[tuple[Cell, ...]] = []
        for key in dict.fromkeys((name.whole_layer, name.is_layer) for name in names):
            group = self._groups.get(key)
            if isinstance(group, SpectraGroup):
                if (key, epsilon) not in self._rows:
                    spectra = [spectrum for number in group.spectra for spectrum in group.of(number)]
                    self._rows[key, epsilon] = rank_rows(spectra, epsilon)
                rows += self._rows[key, epsilon]
            elif group is None:
                alone = [
                    self._heads[name] for name in names if name in self._heads and (name.whole_layer, False) == key
                ]
                rows += rank_rows([spectrum for spectra in alone for spectrum in spectra.values()], epsilon)
        return rows

    def chance(self, name: Head, measure: Measure, epsilon: float) -> Mapping[str, float]:
        """Give what chance makes of a measure for a head, by matrix; empty while it is not known."""
        baseline = self.baseline(name)
        if baseline is None or isinstance(self._groups.get((name.whole_layer, name.is_layer)), EngineError):
            return {}
        spectra = self.spectra(name)
        return {} if spectra is None else chance_measure(measure, epsilon, spectra, baseline)
