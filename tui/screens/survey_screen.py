"""A survey on screen: a measure of all layers over the checkpoints, of a layer's heads, and of one head as a curve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Static

from engine.store.export import write_table
from engine.store.files import unused_path, write_log
from engine.surveys.checkpoint_names import CheckpointName
from engine.surveys.measures import Measure, MeasureOverSteps, holds_since
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import SHORT_LABELS, Head, head_text, parse_head
from engine.values.views import meaning
from tui.drawing.levels import scale_of
from tui.drawing.numbers import brief_number
from tui.drawing.plots import SIGNS, Curve, FurtherCurve
from tui.drawing.text import escape_text
from tui.drawing.titles import Part, Title, fact_part
from tui.screens.prompt import Prompt, Question
from tui.state.survey_place import SurveyPlace, head_beside, head_in_layer
from tui.toolkit.application import notify_copied
from tui.toolkit.keys import HEADS, MEASURING, MOVING, TAKING_AWAY, VIEWS, shared_key
from tui.toolkit.screen import TerminalScreen
from tui.widgets.key_line import KeyLine
from tui.widgets.line import Frame, Line, TopLine
from tui.widgets.plot_area import StepCurve
from tui.widgets.step_map import StepMap, StepValues

FRAMED = (100, 30)
"""The columns and rows from which on parts have frames, and the curve stands beside the maps."""

LEAST_HEIGHT = 18
"""Lines of a terminal that has room for both maps."""

Labels = Sequence[Sequence[str]]
"""For each checkpoint the label of each head, empty where it has none."""


class SurveyScreen(TerminalScreen, inherit_bindings=False):
    """Three parts: layers × checkpoints, the heads of a layer × checkpoints, and the curve of a head.

    Attributes
    ----------
    place : what is shown.
    over_steps : what is known of the measure, by model.
    labels : of the shown model's heads; empty where the survey has none.
    failed : how many checkpoints of the survey could not be measured.
    models : how many models the survey has, also those without this measure.
    message : what is said where there is nothing to draw.
    matches : the heads of the last search, through which ``n`` and ``N`` go.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        shared_key("next_view", "tab", "app.focus_next", "Next panel", MOVING),
        shared_key("previous_view", "shift+tab", "app.focus_previous", "Previous panel", MOVING),
        shared_key("next_head", "right_square_bracket", "step_head(1)", "Next head", MOVING),
        shared_key("previous_head", "left_square_bracket", "step_head(-1)", "Previous head", MOVING),
        shared_key("next_layer", "right_curly_bracket", "step_layer(1)", "Next layer", MOVING),
        shared_key("previous_layer", "left_curly_bracket", "step_layer(-1)", "Previous layer", MOVING),
        shared_key("jump", "colon", "jump", "Go to a head, a step, a measure or a model", MOVING, is_first=True),
        shared_key("search", "slash", "search", "Find heads by their label", MOVING),
        shared_key("next_match", "n", "match(1)", "Next match", MOVING),
        shared_key("previous_match", "N", "match(-1)", "Previous match", MOVING),
        shared_key("next_measure", "m", "measure(1)", "Next measure", MEASURING),
        shared_key("previous_measure", "", "measure(-1)", "Previous measure", MEASURING),
        shared_key("zoom", "z", "zoom", "All checkpoints, or as many as fit", VIEWS),
        shared_key("compare", "C", "compare", "Curves of all models", HEADS),
        shared_key("models", "B", "models", "Next model", VIEWS),
        shared_key("export", "e", "export", "Export the measure", TAKING_AWAY),
        shared_key("copy_cell", "y", "copy('cell')", "Copy the value", TAKING_AWAY),
        shared_key("copy_row", "Y", "copy('row')", "Copy the curve", TAKING_AWAY),
    ]

    foot_keys: ClassVar[dict[str, str]] = {
        "steps.choose": "Open",
        "app.next_view": "Next panel",
        "app.next_measure": "Measure",
        "app.next_head": "Head",
        "app.search": "Find",
        "app.jump": "Go to",
        "app.models": "Model",
        "app.compare": "All models",
        "app.export": "Export",
        "app.zoom": "All steps",
    }

    def __init__(self) -> None:
        super().__init__(id="survey")
        self.place = SurveyPlace()
        self.over_steps: Mapping[str, MeasureOverSteps] = {}
        self.measures: Sequence[Measure] = ()
        self.labels: Labels = ()
        self.failed = self.models = 0
        self.on_change: Callable[[SurveyPlace, SurveyPlace], None] = lambda before, after: None
        self.top_line = TopLine()
        self.layer_map = StepMap("layers")
        self.head_map = StepMap("heads")
        self.curve = StepCurve()
        self.readout = Line(classes="pane-readout")
        self.legend = Line(classes="pane-legend")
        self.key_line = KeyLine()
        self.prompt = Prompt()
        self._frames = {name: Frame(f"survey-{name}", key="") for name in ("layers", "heads", "curve")}
        self.matches: tuple[Head, ...] = ()
        self.message = "reading the survey …"

    def compose(self) -> ComposeResult:
        """Lay out the parts."""
        yield self.top_line
        with Horizontal(id="survey-body"):
            with Vertical(id="survey-maps"):
                for name, map in (("layers", self.layer_map), ("heads", self.head_map)):
                    with self._frames[name] as frame:
                        yield frame.title_line
                        yield map
            with self._frames["curve"] as frame:
                yield frame.title_line
                yield self.curve
                yield self.readout
                yield self.legend
        yield Static("attn-tui needs a terminal of 40 × 12", id="too-small", markup=False)
        yield self.key_line
        yield self.prompt

    def on_mount(self) -> None:
        """Show that the survey is being read."""
        self.layer_map.focus()
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout."""
        width, height = event.size
        self.set_class(width >= FRAMED[0] and height >= FRAMED[1], "-framed")
        self._frames["heads"].display = height >= LEAST_HEIGHT

    @property
    def parts_with_focus(self) -> Sequence[Widget]:
        """The maps."""
        return (self.layer_map, self.head_map)

    # --- what is shown

    @property
    def shown(self) -> MeasureOverSteps | None:
        """What is known of the shown model's heads."""
        return self.over_steps.get(self.place.model)

    @property
    def checkpoint(self) -> CheckpointName | None:
        """The checkpoint under the cursor."""
        shown = self.shown
        return None if shown is None or not shown.checkpoints else shown.checkpoints[self._at(shown)]

    def _at(self, shown: MeasureOverSteps) -> int:
        """Give the number of the checkpoint under the cursor; the last where it is not known yet."""
        revisions = [each.revision for each in shown.checkpoints]
        return revisions.index(self.place.revision) if self.place.revision in revisions else len(revisions) - 1

    @property
    def head(self) -> Head | None:
        """The head whose curve is shown."""
        shown = self.shown
        if shown is None or not shown.heads:
            return None
        return self.place.head if self.place.head in shown.heads else shown.heads[0]

    def change(self, **fields: Any) -> None:
        """Show something else."""
        before, self.place = self.place, replace(self.place, **fields)
        if before != self.place:
            self.on_change(before, self.place)
            self.draw()

    def show(self, over_steps: Mapping[str, MeasureOverSteps], labels: Labels | None = None) -> None:
        """Take what is known by now."""
        self.over_steps = over_steps
        if labels is not None:
            self.labels = labels
        if self.place.model not in over_steps and over_steps:
            self.change(model=next(iter(over_steps)))
        self.draw()

    def draw(self) -> None:
        """Draw all parts."""
        shown, head = self.shown, self.head
        if shown is None or head is None:
            for map, said in ((self.layer_map, self.message), (self.head_map, "")):
                map.show(StepValues(), (0, 0), said)
            return
        steps = tuple(_step(each) for each in shown.checkpoints)
        at, of_layer = self._at(shown), shown.heads_of(head.whole_layer)
        finite = shown.values[np.isfinite(shown.values)]
        scale = scale_of(finite, "linear", bool(finite.size and finite.min() < 0))
        number = shown.heads.index(head)
        layers = [head_text(each, shown.stacks) for each in shown.layers]
        heads = [self._row(shown, each) for each in of_layer]
        width = max(len(each) for each in (*layers, *heads))  # the same, so that a step is in one column of both maps
        for map, names, values, row in (
            (self.layer_map, layers, shown.layer_means, shown.layers.index(head.whole_layer)),
            (self.head_map, heads, shown.values[:, of_layer], of_layer.index(number)),
        ):
            map.show(StepValues(tuple(each.ljust(width) for each in names), steps, values.T, scale), (row, at))
        chance = None if shown.chance is None else shown.chance[:, number]
        lines = self._lines(shown, head)
        self.curve.show(Curve(shown.measure.name, shown.values[:, number], chance, "", lines), steps, at)
        self._write(shown, number, at, lines)

    def _row(self, shown: MeasureOverSteps, number: int) -> str:
        label, since = self._label(shown, number)
        return " ".join(filter(None, (f"H{shown.heads[number].head}", SHORT_LABELS.get(label, label), since)))

    def _label(self, shown: MeasureOverSteps, number: int) -> tuple[str, str]:
        """Give a head's label at the last checkpoint, and the step from which on it has it; empty where it has none."""
        if len(self.labels) != len(shown.checkpoints):
            return "", ""
        of_head = [of_checkpoint[number] for of_checkpoint in self.labels]
        since = holds_since(of_head)
        if since is None:
            return "", ""
        return of_head[-1], _step(shown.checkpoints[since]) if len(of_head) > 1 else ""

    def _lines(self, shown: MeasureOverSteps, head: Head) -> tuple[FurtherCurve, ...]:
        """Give the head of the same name in the other models, at the steps of this one."""
        if not self.place.has_all_models:
            return ()
        lines: list[FurtherCurve] = []
        for name, other in self.over_steps.items():
            if name != self.place.model and head in other.heads and len(lines) < len(SIGNS):
                column = other.heads.index(head)
                by_step = {each.step: float(other.values[row, column]) for row, each in enumerate(other.checkpoints)}
                alone = by_step.get(None, np.nan)  # of a model without steps
                values = np.array([by_step.get(each.step, alone) for each in shown.checkpoints])
                lines.append((_short(name), values))
        return tuple(lines)

    def _write(self, shown: MeasureOverSteps, number: int, at: int, lines: Sequence[FurtherCurve]) -> None:
        head, measure = shown.heads[number], shown.measure.name
        name, layer = head_text(head, shown.stacks), head_text(head.whole_layer, shown.stacks)
        models = f" · {self.models} models" if self.models > 1 else ""
        failed = f" · {self.failed} failed: failures.parquet says why" if self.failed else ""
        survey = Text("survey ", "bold").append(escape_text(_short(self.place.model)))
        self.top_line.show(survey.append(f" · {quantity(len(shown.checkpoints), 'checkpoint')}{models}{failed}"))
        label, since = self._label(shown, number)
        is_label = f"{label} since {_at_step(since)}" if since else label
        of_curve = " · ".join(filter(None, (name, measure, is_label)))
        facts = {"layers": f"mean {measure}", "heads": f"of {layer} · {measure}", "curve": of_curve}
        for part, fact in facts.items():
            self._frames[part].title_line.show_title(Title((Part(part, style="bold"), fact_part(fact, " "))))
        value = shown.values[at, number]
        said = [_at_step(_step(shown.checkpoints[at])), f"{name} {brief_number(float(value), 4)}"]
        if shown.chance is not None:
            said.append(f"chance {brief_number(float(shown.chance[at, number]), 4)}")
        if not lines:
            mean = float(shown.layer_means[at, shown.layers.index(head.whole_layer)])
            said.append(f"mean of {layer} {brief_number(mean, 4)}")
        for sign, (line, values) in zip(SIGNS, lines, strict=False):
            value = float(values[at])
            said.append(f"{sign} {line} {brief_number(value, 4) if np.isfinite(value) else 'has no such step'}")
        self.readout.show(escape_text(" · ".join(said)))
        words = meaning(measure) if shown.measure.energy is None else meaning(measure, shown.measure.energy)
        short = words.partition(": ")[2]  # the titles have the measure's name
        self.legend.show(self.layer_map.legend().append(f"  {short}" if short else ""))

    # --- moving

    @on(StepMap.Moved)
    def _moved(self, event: StepMap.Moved) -> None:
        event.stop()
        shown, head = self.shown, self.head
        if shown is None or head is None:
            return
        map = self.head_map if self.focused is self.head_map else self.layer_map
        row, at = event.cell
        if map is self.layer_map:
            head = head_in_layer(shown.heads, head, row - shown.layers.index(head.whole_layer))
        else:
            head = shown.heads[shown.heads_of(head.whole_layer)[row]]
        self.change(head=head, revision=shown.checkpoints[at].revision)

    def action_step_head(self, step: int) -> None:
        """Go to the next or previous head, across layers."""
        if self.shown is not None and self.head is not None:
            self.change(head=head_beside(self.shown.heads, self.head, step))

    def action_step_layer(self, step: int) -> None:
        """Go to the same head of the next or previous layer."""
        if self.shown is not None and self.head is not None:
            self.change(head=head_in_layer(self.shown.heads, self.head, step))

    def action_measure(self, step: int) -> None:
        """Go to the next or previous measure."""
        names = [each.name for each in self.measures]
        if self.place.measure in names:
            self.change(measure=names[(names.index(self.place.measure) + step) % len(names)])

    def action_models(self) -> None:
        """Go to the next model of the survey."""
        models = list(self.over_steps)
        if len(models) < 2:
            self.key_line.show_message("this survey has one model")
        else:
            self.change(model=models[(models.index(self.place.model) + 1) % len(models)])

    def action_compare(self) -> None:
        """Show the curves of the same head in all models, or not."""
        if len(self.over_steps) < 2:
            self.key_line.show_message("this survey has one model; there is none to compare with")
        else:
            self.change(has_all_models=not self.place.has_all_models)

    def action_zoom(self) -> None:
        """Give each checkpoint a column, or show as many as fit."""
        for map in (self.layer_map, self.head_map):
            map.action_spread()

    def action_search(self) -> None:
        """Ask which heads to find."""
        self.prompt.ask(FindHead(self))

    def action_jump(self) -> None:
        """Ask where to go."""
        self.prompt.ask(WhereTo(self))

    def find(self, text: str) -> tuple[Head, ...]:
        """List the heads whose name or label has a text in it."""
        shown, wanted = self.shown, text.strip().lower()
        if shown is None or not wanted:
            return ()
        return tuple(
            head
            for number, head in enumerate(shown.heads)
            if wanted in f"{head_text(head, shown.stacks)} {self._label(shown, number)[0]}".lower()
        )

    def action_match(self, step: int) -> None:
        """Go to the next or previous match of the last search."""
        if not self.matches or self.head is None:
            self.key_line.show_message("nothing was searched; / finds heads by their label")
            return
        place = self.matches.index(self.head) + step if self.head in self.matches else 0
        self.change(head=self.matches[place % len(self.matches)])

    # --- taking away

    async def action_export(self) -> None:
        """Write the measure of all heads at all checkpoints of the shown model."""
        shown = self.shown
        if shown is None:
            self.key_line.show_message("nothing has been read yet")
            return
        try:
            path = unused_path(Path(f"{shown.measure.name}.csv"))
            await asyncio.to_thread(lambda: write_table(shown.table(), path, "csv"))
        except EngineError as error:
            self.notify(str(error), severity="error")
        except Exception as error:  # a file that could not be made is no reason to lose what is on screen
            self.notify(write_log(error), severity="error")
        else:
            rows = len(shown.checkpoints) * len(shown.heads)
            self.notify(f"{path.name}: {shown.measure.name}, {quantity(rows, 'row')}", title="written")

    def action_copy(self, what: str) -> None:
        """Copy the value under the cursor, or the head's value at each checkpoint."""
        shown, head = self.shown, self.head
        if shown is None or head is None or self.checkpoint is None:
            return
        values = shown.values[:, shown.heads.index(head)].tolist()
        if what == "cell":
            self.app.copy_to_clipboard(repr(values[shown.checkpoints.index(self.checkpoint)]))
        else:
            rows = (f"{each.step if each.step is not None else each.revision}\t{value!r}"
                    for each, value in zip(shown.checkpoints, values, strict=True))  # fmt: skip
            self.app.copy_to_clipboard("\n".join(rows))
        notify_copied(self.app)


class FindHead(Question):
    """The question which heads to find; the cursor goes to the first match while the text is typed."""

    label = "/"

    def __init__(self, screen: SurveyScreen) -> None:
        self._screen = screen
        self._before = screen.place
        self.names = sorted(set(filter(None, screen.labels[-1]))) if screen.labels else ()

    def typed(self, text: str) -> str:
        """Go to the first match, and count the matches."""
        found = self._screen.find(text)
        if not found:
            self._screen.change(head=self._before.head)
            return "no head has that name or label" if text.strip() else "a head or a label, such as induction"
        self._screen.change(head=found[0])
        return quantity(len(found), "head")

    def answer(self, text: str) -> None:
        """Stay at the match; `EngineError` when nothing matches."""
        found = self._screen.find(text)
        if text.strip() and not found:
            raise EngineError(self.typed(text))
        self._screen.matches = found

    def leave(self) -> None:
        """Go back to where the search began."""
        self._screen.change(head=self._before.head)


class WhereTo(Question):
    """The question where to go: a head, a step, a measure or a model."""

    label = ":"

    def __init__(self, screen: SurveyScreen) -> None:
        self._screen = screen
        self.names = (*(each.name for each in screen.measures), *screen.over_steps)

    def typed(self, text: str) -> str:
        """Say what can be typed."""
        return "" if text else "L1H0, a step, a measure or a model · tab completes"

    def answer(self, text: str) -> None:
        """Go there; `EngineError` when there is no such thing."""
        screen, name = self._screen, text.strip()
        shown = screen.shown
        if not name or shown is None:
            return
        if name.lower() in [each.name for each in screen.measures]:
            screen.change(measure=name.lower())
        elif models := [each for each in screen.over_steps if name in (each, _short(each))]:
            screen.change(model=models[0])
        elif (step := name.removeprefix("step").strip()).isdecimal():
            known = [each for each in shown.checkpoints if each.step is not None]
            if not known:
                raise EngineError("these checkpoints have no steps")
            nearest = min(known, key=lambda each: abs((each.step or 0) - int(step)))
            screen.change(revision=nearest.revision)
            if nearest.step != int(step):
                screen.key_line.show_message(f"step {nearest.step} is the nearest to {step}")
        else:
            screen.change(head=self._head(name, shown))

    def _head(self, name: str, shown: MeasureOverSteps) -> Head:
        """Give the head that a text names, the first of a layer; raises `EngineError` where it names none."""
        with suppress(EngineError):
            named = parse_head(name, shown.stacks)
            for each in shown.heads:
                if named in (each, each.whole_layer):
                    return each
        raise EngineError(f"no {name}; give a head (L1H0), step, measure or model")


def _step(checkpoint: CheckpointName) -> str:
    return checkpoint.revision if checkpoint.step is None else str(checkpoint.step)


def _at_step(step: str) -> str:
    return f"step {step}" if step.isdecimal() else step


def _short(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2]
