"""What the screen has learned of a model so far; plain values, no widgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.analysis.ranks import rank_rows
from engine.mathematics.chance import chance_measures
from engine.mathematics.measures import MEASURES, Measure
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.spectra import SpectraGroup, Spectrum
from engine.values.table import Cell

KEPT = 64
"""Layers' spectra at distances that are remembered."""

KEPT_EPSILONS = 4
"""Values of ε whose rows are remembered: of a large model those of one take tens of megabytes."""

GroupKey = tuple[Head, bool]
"""A layer's name, and whether the layer as a whole is meant."""

RowsByHead = dict[str, list[tuple[Cell, ...]]]
"""Rows of the ``ranks`` table by what the head's column says."""


class Knowledge:
    """Spectra and measured rows by layer, as they come in from the engine."""

    def __init__(self, outline: ModelOutline) -> None:
        self.outline = outline
        self._groups: dict[GroupKey, SpectraGroup | EngineError] = {}
        self._heads: dict[Head, Mapping[str, Spectrum]] = {}
        self._turned: dict[tuple[GroupKey, int], SpectraGroup | EngineError] = {}
        self._turned_heads: dict[tuple[Head, int], Mapping[str, Spectrum]] = {}
        self._rows: dict[float, dict[GroupKey, RowsByHead]] = {}

    def learn(self, layer: Head, whole_layer: bool, answer: SpectraGroup | EngineError) -> None:
        """Keep spectra, or why there are none."""
        self._groups[layer.whole_layer, whole_layer] = answer
        if not whole_layer:
            self._heads = {head: known for head, known in self._heads.items() if head.whole_layer != layer.whole_layer}

    def learn_head(self, head: Head, spectra: Sequence[Spectrum]) -> None:
        """Keep one head's spectra, which come before those of its layer."""
        self._heads[head] = {spectrum.matrix: spectrum for spectrum in spectra}

    def learn_turned(self, layer: Head, whole_layer: bool, distance: int, answer: SpectraGroup | EngineError) -> None:
        """Keep spectra with QK's at a distance, or why there are none; of those that came long ago none."""
        self._turned[(layer.whole_layer, whole_layer), distance] = answer
        for oldest in list(self._turned)[:-KEPT]:
            del self._turned[oldest]

    def learn_turned_head(self, head: Head, distance: int, spectra: Sequence[Spectrum]) -> None:
        """Keep one head's spectra with QK's at a distance, until there is the next."""
        self._turned_heads = {(head, distance): {spectrum.matrix: spectrum for spectrum in spectra}}

    def has_turned(self, layer: Head, whole_layer: bool, distance: int) -> bool:
        """Say whether the spectra at a distance, or the reason why there are none, are known."""
        return ((layer.whole_layer, whole_layer), distance) in self._turned

    def has(self, layer: Head, whole_layer: bool) -> bool:
        """Say whether the spectra, or the reason why there are none, are known."""
        return (layer.whole_layer, whole_layer) in self._groups

    def spectra(self, name: Head, distance: int | None = None) -> Mapping[str, Spectrum] | None:
        """Give the spectra of a head, or of a whole layer, by matrix; None while they are not known.

        Parameters
        ----------
        name : of the head or layer.
        distance : of the key before the query, for QK's; None where nothing is turned.

        Raises
        ------
        EngineError : when they cannot be had.
        """
        key = (name.whole_layer, name.is_layer)
        group = self._groups.get(key) if distance is None else self._turned.get((key, distance))
        if isinstance(group, EngineError):
            raise group
        if group is not None:
            return group.spectra[name.head]
        return self._heads.get(name) if distance is None else self._turned_heads.get((name, distance))

    def trouble(self, layer: Head) -> str:
        """Say why there are no spectra of a layer's heads, if there will be none."""
        group = self._groups.get((layer, False))
        return str(group) if isinstance(group, EngineError) else ""

    def troubles(self, names: Iterable[Head]) -> dict[Head, str]:
        """Say of those heads and layers that will have no spectra, or not all, why that is."""
        groups = {name: self._groups.get((name.whole_layer, name.is_layer)) for name in names}
        said = {
            name: str(group) if isinstance(group, EngineError) else group.lacking
            for name, group in groups.items()
            if group is not None
        }
        return {name: why for name, why in said.items() if why}

    def lacking(self, name: Head) -> str:
        """Say why some of the spectra of a layer as a whole are left out; nothing where all are there, or none."""
        group = self._groups.get((name.whole_layer, name.is_layer))
        return group.lacking if isinstance(group, SpectraGroup) else ""

    def _plain(self, name: Head) -> Mapping[str, Spectrum] | None:
        """Give the spectra of a head or layer by matrix; None where they are not known, or cannot be had."""
        group = self._groups.get((name.whole_layer, name.is_layer))
        if group is None:
            return self._heads.get(name)
        return None if isinstance(group, EngineError) else group.spectra[name.head]

    def names_beside(self, name: Head | None) -> tuple[Head, ...]:
        """List what stands in one ranks table: a layer's heads and the layer, or for a model its whole layers."""
        if name is None:
            return tuple(layer.name for layer in self.outline.layers)
        layer = self.outline.layer(name)
        return (*layer.head_names(), layer.name)

    def rows_at(self, names: Sequence[Head], epsilon: float, distance: int | None) -> list[tuple[Cell, ...]]:
        """Measure as in `rows`, QK at a distance where one is given; what is not known of that is left out."""
        plain = self.rows(names, epsilon)
        if distance is None:
            return plain
        groups = {
            key: self._turned.get((key, distance))
            for key in dict.fromkeys((name.whole_layer, name.is_layer) for name in names)
        }
        turned = [
            each["QK"]
            for group in groups.values()
            if isinstance(group, SpectraGroup)
            for each in group.spectra.values()
            if "QK" in each
        ]
        of_circuit: dict[tuple[Cell, ...], tuple[Cell, ...]] = {row[:4]: row for row in rank_rows(turned, epsilon)}
        return [of_circuit.get(row[:4], row) for row in plain if row[3] != "QK" or row[:4] in of_circuit]

    def rows(self, names: Sequence[Head], epsilon: float) -> list[tuple[Cell, ...]]:
        """Measure the spectra that are known of these names: rows of the ``ranks`` table, in their order."""
        rows: list[tuple[Cell, ...]] = []
        for key in dict.fromkeys((name.whole_layer, name.is_layer) for name in names):
            group = self._groups.get(key)
            if isinstance(group, SpectraGroup):
                for of_head in self._measured(key, group, epsilon).values():
                    rows += of_head
            elif group is None:
                alone = [
                    self._heads[name] for name in names if name in self._heads and (name.whole_layer, False) == key
                ]
                rows += rank_rows([spectrum for spectra in alone for spectrum in spectra.values()], epsilon)
        return rows

    def rows_of(self, head: Head, epsilon: float) -> Sequence[tuple[Cell, ...]]:
        """Measure the spectra that are known of one head: its rows of the ``ranks`` table."""
        key = (head.whole_layer, head.is_layer)
        group = self._groups.get(key)
        if isinstance(group, SpectraGroup):
            return self._measured(key, group, epsilon).get(head.label, ())
        return self.rows([head], epsilon)

    def _measured(self, key: GroupKey, group: SpectraGroup, epsilon: float) -> RowsByHead:
        """Measure a layer's spectra, once."""
        rows = self._of_epsilon(epsilon)
        if key not in rows:
            rows[key] = measured(group, epsilon)
        return rows[key]

    def _of_epsilon(self, epsilon: float) -> dict[GroupKey, RowsByHead]:
        """Give the rows of one ε; those of the ε that was asked for longest ago are forgotten."""
        self._rows[epsilon] = self._rows.pop(epsilon, {})
        for oldest in list(self._rows)[:-KEPT_EPSILONS]:
            del self._rows[oldest]
        return self._rows[epsilon]

    def unmeasured(self, keys: Iterable[GroupKey], epsilon: float) -> dict[GroupKey, SpectraGroup]:
        """Give the spectra that are known of layers and not measured yet."""
        rows = self._of_epsilon(epsilon)
        missing = (key for key in dict.fromkeys(keys) if key not in rows)
        groups = ((key, self._groups.get(key)) for key in missing)
        return {key: group for key, group in groups if isinstance(group, SpectraGroup)}

    def keep_rows(self, key: GroupKey, epsilon: float, rows: RowsByHead) -> None:
        """Keep a layer's rows, which were measured elsewhere."""
        self._of_epsilon(epsilon)[key] = rows

    def rows_beside_chance(self, names: Sequence[Head], epsilon: float, distance: int | None) -> list[tuple[Cell, ...]]:
        """Measure as in `rows_at`, beside chance, for which a distance makes no difference."""
        spectra = [each for name in names for each in (self._plain(name) or {}).values()]
        chance: dict[tuple[Cell, ...], tuple[Cell, ...]] = {
            (each.head.stack, each.head.layer, each.head.label, each.matrix): cells or ("",) * len(MEASURES)
            for each, cells in zip(spectra, chance_measures(spectra, epsilon), strict=True)
        }
        return [(*row, *chance[row[:4]]) for row in self.rows_at(names, epsilon, distance)]

    def chance(self, name: Head, measure: Measure, epsilon: float) -> Mapping[str, float]:
        """Give what chance makes of a measure for a head, by matrix; empty while it is not known."""
        spectra = list((self._plain(name) or {}).values())
        found = zip(spectra, chance_measures(spectra, epsilon, (measure,)), strict=True)
        return {each.matrix: values[0] for each, values in found if values is not None}


def measured(group: SpectraGroup, epsilon: float) -> RowsByHead:
    """Measure a layer's spectra, of its heads or as a whole: rows of the ``ranks`` table, in their order."""
    of_heads: RowsByHead = {}
    for row in rank_rows([spectrum for number in group.spectra for spectrum in group.of(number)], epsilon):
        of_heads.setdefault(str(row[2]), []).append(row)
    return of_heads
