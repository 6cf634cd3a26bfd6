"""The scale on which each measure of all heads is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from engine.values.views import RANK_MEASURES
from tui.drawing.levels import Scale, scale_named
from tui.measures import MEASURES

LOGARITHMIC: Mapping[str, Scale] = {name: "log" for name in RANK_MEASURES if "condition" in name}
"""The scales of measures that do not begin on the linear one."""


class MeasureScales:
    """What a person has chosen for each measure, else what it begins on."""

    def __init__(self) -> None:
        self._scales = dict(LOGARITHMIC)

    def of(self, measure: str) -> Scale:
        """Give a measure's scale."""
        return self._scales.get(measure, "linear")

    def choose(self, measure: str, scale: Scale) -> None:
        """Draw a measure on another scale."""
        self._scales[measure] = scale

    @property
    def left(self) -> dict[str, str]:
        """The scales that are not as at first."""
        others = (each for each in self._scales.items() if each[1] != LOGARITHMIC.get(each[0], "linear"))
        return {f"{measure} scale": scale for measure, scale in others}

    def take_up(self, what: str, said: str) -> None:
        """Draw a measure on the scale that was left."""
        measure, _, thing = what.rpartition(" ")
        if thing == "scale" and measure in MEASURES:
            self.choose(measure, scale_named(said))
