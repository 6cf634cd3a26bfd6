"""One open model on screen: what is known of its weights, its tables, its sentence, and who draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.views import CONTRIBUTIONS
from tui.beside import Run
from tui.comparing import Comparing
from tui.distance import Distance
from tui.export.screen_request import Asking
from tui.learning import Learning
from tui.reading import Reading
from tui.tables import Tables
from tui.ways import Ways
from tui.weights import Weights

if TYPE_CHECKING:
    from tui.app import Explorer
    from tui.overview import Overview
    from tui.sentences import Sentences


class ShownModel:
    """What shows a model, made once its outline is known.

    Parameters
    ----------
    app : whose views these are.
    outline : of the model.
    epsilon : of the energy rank, to begin with.
    overview : the map of all heads, which follows what is selected and read.
    sentences : the person's, where one is listed once it has been read.
    run : awaits work beside the event loop; newer work under the same name replaces older.

    Attributes
    ----------
    outline : of the model.
    weights : its spectra and ranks.
    reading : its sentence and the maps for it.
    tables : what else is worked out.
    ways : from place to place in it.
    asking : what turns what is on screen into requests.
    comparing : its heads beside each other.
    distance : what turns its QK.
    learning : what is learned beside what is looked at.
    """

    def __init__(
        self,
        app: Explorer,
        outline: ModelOutline,
        epsilon: float,
        overview: Overview,
        sentences: Sentences,
        run: Run,
    ) -> None:
        engine, views = app.engine, app.views
        self.outline = outline
        self.weights = Weights(engine, views, app.tree_widget, outline, epsilon, run)
        self.tables = Tables(engine, views, outline, run, app.report, epsilon)
        self.reading = Reading(engine, views.attention, outline, run, self._has_read)
        self.ways = Ways(app, outline, self.weights)
        self.asking = Asking(outline, engine.options, views, self.weights, self.reading, self.tables)
        self.comparing = Comparing(app, self.weights, outline, run)
        self.distance = Distance(app, self.weights, self.tables, self.comparing, run)
        self.learning = Learning(app, self.weights, self.reading, overview, self.comparing, run)
        self._views = views
        self._overview = overview
        self._sentences = sentences

    def _has_read(self) -> None:
        """List a sentence that was read, and have the heads labelled."""
        if self.reading.sentence is not None:
            self._sentences.has_read(self.reading.sentence)
        self.learning.label()

    def advance(self, progress: Progress) -> Progress:
        """Say how far the model is where that is waited for, and give it as it is shown."""
        self.reading.advance(progress)
        return self.tables.advance(progress)

    def select(self, name: Head | None, *, with_neighbours: bool) -> None:
        """Show a head, a whole layer, or the model (None).

        Parameters
        ----------
        name : of what is selected.
        with_neighbours : whether what stands beside it is asked for too.
        """
        if name is None:
            self.learning.measure_memory()
        self.weights.select(name, with_neighbours)
        self._overview.select(name)
        self.tables.select(name)
        self.reading.select(name)
        self.ways.arrive()
        self.comparing.select(name)

    def read(self, text: str, selected: Head | None) -> None:
        """Have the model read a sentence, and show it of what is selected."""
        self.reading.read(text, selected)
        self.comparing.read(text)
        self._overview.read(text)
        self.tables.read(text)

    def switch_off(self, off: Off) -> None:
        """Show maps and predictions with other heads switched off."""
        of_maps = off if off.heads else NOTHING_OFF
        self.reading.switch_off(of_maps)
        self.comparing.switch_off(of_maps)
        self.tables.switch_off(off)

    def change_epsilon(self, step: int) -> str:
        """Change ε, and measure again; say so where it goes no farther."""
        refusal = self.weights.change_epsilon(step)
        if not refusal:
            self._measure_again()
        return refusal

    def use_epsilon(self, epsilon: float) -> None:
        """Measure again with any ε."""
        self.weights.use_epsilon(epsilon)
        self._measure_again()

    def _measure_again(self) -> None:
        """Have what else depends on ε measured again."""
        self._overview.measure_again()
        self.tables.measure_again(self.weights.epsilon)

    def choose_token(self, number: int) -> None:
        """Take another token's numbers where tables are of one, and show what its logit is made of."""
        self.tables.choose_token(number)
        self._views.go_to(CONTRIBUTIONS.name)
        self.tables.resume()

    def step_position(self, step: int) -> str:
        """Go to what is predicted at another token, once a sentence has been read; say so where there is none."""
        return self.tables.step_position(step, self.reading.tokens) if self.reading.tokens else ""
