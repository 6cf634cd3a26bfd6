"""The spectra pane: six sparklines of one head, or of a whole layer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text
from textual import on
from textual.app import ComposeResult

from engine.mathematics.chance import chance_curve
from engine.mathematics.measures import energy_rank
from engine.values.spectra import Spectrum
from tui.drawing.curves import Curve, Line
from tui.drawing.levels import Scale
from tui.drawing.numbers import short
from tui.drawing.view_titles import COMPUTING, ViewTitle
from tui.views.pane import Pane
from tui.widgets.line import Line as LineOfText
from tui.widgets.spectra import SpectraView

_NAME_ALONE = re.compile(r"^[^·]*[^· ]| Δ = \d+(?=.*$)")
"""What stays of a name where there is little room: neither what the head does nor its marks."""


@dataclass(frozen=True)
class Beside:
    """Another model's spectra of the same head.

    Attributes
    ----------
    name : of the model.
    spectra : by matrix; empty where there are none, or none yet.
    why_not : why there are none; empty where there are, or may be.
    """

    name: str
    spectra: Mapping[str, Spectrum]
    why_not: str = ""


class SpectraPane(Pane):
    """Singular values with the baseline of chance, and a readout under the cursor.

    Attributes
    ----------
    is_without_curves : whether it says why there are none, so that nothing is on a scale.
    """

    view = "spectra"
    has_scale = True

    def __init__(self) -> None:
        super().__init__()
        self.graph = SpectraView(name="spectra")
        self._name_shown = ""
        self._state: Sequence[str] = ()
        self._epsilon: float | None = None
        self.is_without_curves = False
        self._other: Beside | None = None
        self.left_out_line = LineOfText(classes="pane-left-out")
        self.left_out_line.display = False

    def compose(self) -> ComposeResult:
        """Stack the title, the graph, why it lacks any, and the readout."""
        yield self.title_line
        yield self.graph
        yield self.left_out_line
        yield self.readout_line

    def show(
        self,
        name: str,
        spectra: Mapping[str, Spectrum],
        epsilon: float,
        other: Beside | None = None,
        lacking: str = "",
    ) -> None:
        """Draw spectra by matrix, with what chance gives and with another model's where those are known.

        Where some are left out, ``lacking`` says why.
        """
        self._other, self._epsilon = other, epsilon
        self.is_waiting = False
        self._has_curves(True)
        self._set_title(name)
        self._say_left_out("; ".join(filter(None, (lacking, other.why_not if other is not None else ""))))
        self.graph.show(
            [
                Curve(
                    matrix,
                    spectrum.singular_values,
                    chance_curve(spectrum),
                    f"rank {int(energy_rank(spectrum.singular_values, epsilon))}/{len(spectrum.singular_values)}"
                    f" σ₁ {short(float(spectrum.singular_values[0]))}",
                    ()
                    if other is None or matrix not in other.spectra
                    else (Line("other", other.spectra[matrix].singular_values),),
                )
                for matrix, spectrum in spectra.items()
            ]
        )
        self._read_out()

    def _has_curves(self, has_curves: bool) -> None:
        """Take note of whether there are curves, or will be; the key of their scale is offered only then."""
        if self.is_without_curves is has_curves:
            self.is_without_curves = not has_curves
            self.refresh_bindings()

    def _say_left_out(self, why: str) -> None:
        """Say why some spectra are left out, or take that away."""
        self.left_out_line.display = bool(why)
        self.left_out_line.show(why)

    def on_resize(self) -> None:
        """Write as much above and below the graph as there is room for now."""
        self._set_title(self._name_shown, self._state)
        self._read_out()

    def show_waiting(self, name: str) -> None:
        """Say what comes next; what is drawn stays until it does."""
        self.is_waiting = True
        self._set_title(name, (COMPUTING,))

    def show_message(self, name: str, message: str, *, is_waiting: bool = False) -> None:
        """Say why there is nothing to draw, or nothing yet."""
        self._epsilon, self.is_waiting = None, is_waiting
        self._has_curves(is_waiting)
        self._set_title(name)
        self._say_left_out("")
        self.graph.show_message(message, is_waiting=is_waiting)
        self.readout_line.show("")

    def _set_title(self, name: str, state: Sequence[str] = ()) -> None:
        """Say what is shown, on which scale, and of which ε the ranks are; in few words where there is little room."""
        self._name_shown, self._state = name, state
        title, room, scale = Text(), self.room, self.graph.scale
        alone = "".join(_NAME_ALONE.findall(name)) or name
        if self.is_without_curves:
            self.title_line.show_title(ViewTitle(Text.assemble(("spectra ", "bold"), name), state))
            return
        for of, gap, scaled, rank in (
            (name, "  ", f"{scale} scale", "rank ε"),
            (name, "  ", scale, "ε"),
            (alone, " ", scale, "ε"),
            (alone, "  ", scale, "ε"),
        ):
            title = Text.assemble(("spectra ", "bold"), of, f"{gap}{scaled}")
            if self._epsilon is not None:
                title.append(f"{gap}{rank} {self._epsilon:g}")
            if self._other is not None and not self._other.why_not:
                title.append("  ").append(*self.graph.line_sign(0)).append(f" {self._other.name}")
            if title.cell_len <= room or not room:
                break
        self.title_line.show_title(ViewTitle(title, state))

    @property
    def scale(self) -> Scale:
        """Linear or logarithmic."""
        return self.graph.scale

    def begin_on(self, scale: Scale) -> None:
        """Draw what is shown first on a scale."""
        self.graph.begin_on(scale)

    def toggle_scale(self) -> None:
        """Change between the logarithmic and the linear scale."""
        self.graph.toggle_scale()
        self._set_title(self._name_shown, self._state)

    @on(SpectraView.CursorMoved)
    def _read_out(self) -> None:
        """Say what is under the cursor."""
        self.readout_line.show(self.graph.readout(max(self.room, 10)))
