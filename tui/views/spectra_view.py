"""The spectra view: the singular values of the six matrices of a head or a whole layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from engine.analysis.ranks import spectrum_table
from engine.mathematics.chance import chance_curve
from engine.mathematics.measures import energy_rank
from engine.values.errors import EngineError
from engine.values.heads import Head, head_text
from engine.values.spectra import Spectrum
from engine.values.table import AnyTable
from tui.drawing.facts import model_facts
from tui.drawing.levels import Scale
from tui.drawing.numbers import short_number
from tui.drawing.plots import Curve
from tui.drawing.titles import BRIEF, COMPUTING, WORDS, Part, fact_part
from tui.state.session import Shown, Side
from tui.state.stores import Stores
from tui.toolkit.keys import MEASURING, key_of, shared_key
from tui.toolkit.messages import Notice
from tui.views.pane import Pane
from tui.widgets.line import Line
from tui.widgets.spectra import SpectraView


class SpectraPane(Pane):
    """Singular values over the baseline of chance, with a readout of the value under the cursor."""

    view = "spectra"
    table_name: ClassVar[str] = "spectrum"
    has_scale = True
    uses = ("selected", "distance", "epsilon", "spectra_scale")
    asks = ("spectra",)
    BINDINGS: ClassVar[list[BindingType]] = [
        shared_key("distance", "", "distance", "QK at a distance, or without", MEASURING),
        shared_key("farther", "", "turn(1)", "Δ one more", MEASURING),
        shared_key("nearer", "", "turn(-1)", "Δ one less", MEASURING),
    ]

    foot_keys: ClassVar[Mapping[str, str]] = {"app.scale": "Scale"}

    def __init__(self) -> None:
        self.graph = SpectraView()
        self.left_out_line = Line(classes="pane-left-out")
        super().__init__(self.graph, self.left_out_line)
        self.left_out_line.display = False

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw the spectra of the selected head or layer, with chance and the other model's where they are known."""
        name, distance, spectra = shown.selected, shown.distance, stores.spectra
        self.graph.scale = shown.spectra_scale
        if name is None:
            self.show_message([Part("the model", " ")], model_facts(stores.outline, stores.memory))
            return
        title = _title(name, distance, stores)
        found = spectra.get(name, distance)
        if found is None and distance is not None and self.graph.matrices:
            self.is_waiting = True
            self.show_title(title, (COMPUTING,))  # the curves on screen stay until the next come
        elif found is None or isinstance(found, EngineError):
            self.show_message(title, COMPUTING if found is None else str(found), is_waiting=found is None)
        else:
            theirs = spectra.get(name, distance, is_other=True) if stores.other else None
            trouble = str(theirs) if isinstance(theirs, EngineError) else ""
            if self.message:
                self.refresh_bindings()  # the key of the scale works again
            scale, epsilon = shown.spectra_scale, f"ε {shown.epsilon:g}"
            title.append(Part(f"{scale} scale", fewer=((WORDS, scale), (BRIEF, ""))))
            title.append(Part(f"rank {epsilon}", fewer=((WORDS, epsilon),)))
            title.append(Part("dotted: chance", fewer=((WORDS, ""),)))
            if stores.other and not trouble:
                sign, style = self.graph.line_sign(0)
                title += [Part(sign, style=style), Part(stores.other, " ")]
            self.show_drawn(title)
            self._show_left_out(trouble)
            of_other = theirs if isinstance(theirs, Mapping) else {}
            self.graph.show([_curve(each, of_other.get(each.matrix), shown.epsilon) for each in found.values()])
            self._read_out()

    def action_distance(self) -> None:
        """Show QK with the key at distance 0 from the query, or without positions again."""
        self.show_distance(0 if self.session.shown.distance is None else None)

    def action_turn(self, step: int) -> None:
        """Move the key farther from the query, or nearer, if QK is shown at a distance."""
        if (distance := self.session.shown.distance) is not None:
            self.show_distance(max(distance + step, 0))

    def show_distance(self, distance: int | None) -> None:
        """Show QK with the key at a distance from the query, or without positions; where it has none, say why."""
        shown = self.session.shown
        if self.stores is None:
            return
        if self.stores.outline.no_rotation:
            self.app.notify(self.stores.outline.no_rotation, severity="warning")
        elif shown.selected is None:
            self.post_message(Notice("QK at a distance needs a head or a layer; choose one"))
        elif shown.view == "compare" and shown.side is not Side.SPECTRA:
            on = key_of(self, "app.compare")
            self.post_message(Notice(f"maps have no distance; {on} shows spectra, which have one"))
        else:
            self.session.change(distance=distance)

    def table_on_screen(self) -> AnyTable:
        """Give the singular values; of two models, if both have the same matrices."""
        spectra, shown = self.known.spectra, self.session.shown
        name, distance = shown.selected, shown.distance
        if name is None:
            raise EngineError("the whole model has no spectra; nothing was written. Choose a layer or a head")
        if isinstance(known := spectra.known(name, distance), EngineError):
            raise known
        own, other = (spectra.listed(name, distance, is_other=is_other) for is_other in (False, True))
        if not own:
            raise self.nothing_drawn
        if other and [each.matrix for each in other] != [each.matrix for each in own]:
            raise EngineError(f"one of the models lacks some matrices of {name}; nothing was written")
        return spectrum_table(own, other)

    @property
    def is_without_curves(self) -> bool:
        """Whether a message stays in the place of the curves, so that there is no scale to change."""
        return bool(self.message) and not self.is_waiting

    def _show_left_out(self, why: str) -> None:
        self.left_out_line.display = bool(why)
        self.left_out_line.show(why)

    def show_message(self, title: Sequence[Part], message: str, *, is_waiting: bool = False) -> None:
        """Show the model's facts, or why there are no spectra, or none yet."""
        self._show_left_out("")
        super().show_message(title, message, is_waiting=is_waiting)
        self.refresh_bindings()

    def replace_by(self, message: str) -> None:
        """Show it in the place of the curves."""
        self.graph.show_message(message)

    @property
    def scale(self) -> Scale:
        """Linear or logarithmic."""
        return self.graph.scale

    def toggle_scale(self) -> None:
        """Change between the logarithmic and the linear scale."""
        self.session.change(spectra_scale="log" if self.scale == "linear" else "linear")

    @on(SpectraView.CursorMoved)
    def _read_out(self) -> None:
        self.readout_line.show(self.graph.readout(max(self.room, 10)))


def _title(name: Head, distance: int | None, stores: Stores) -> list[Part]:
    outline = stores.outline
    parts = [Part(f"{head_text(name, outline.stacks)}{' whole layer' if name.is_layer else ''}", " ")]
    parts.append(fact_part(stores.label(name), " · "))
    if distance is not None:
        parts += [Part(f"Δ = {distance}", " "), fact_part(outline.past_context(distance), ", ")]
    return [*parts, *(fact_part(mark, " · ") for mark in outline.layer(name).marks)]


def _curve(spectrum: Spectrum, other: Spectrum | None, epsilon: float) -> Curve:
    sigma = spectrum.singular_values
    rank = int(energy_rank(sigma, epsilon))
    summary = f"rank {rank}/{len(sigma)} σ₁ {short_number(float(sigma[0]))}"
    lines = () if other is None else (("other", other.singular_values),)
    return Curve(spectrum.matrix, sigma, chance_curve(spectrum), summary, lines, cut=rank)
