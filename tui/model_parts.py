"""What there is of the open model, and what is answered while none is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.values.attention import AttentionMap
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.spectra import SpectraGroup
from engine.values.table import AnyTable

if TYPE_CHECKING:
    from tui.app import Explorer
    from tui.comparing import Comparing
    from tui.distance import Distance
    from tui.reading import Reading
    from tui.shown_model import ShownModel
    from tui.ways import Ways
    from tui.weights import Weights


class ModelParts:
    """Gives what shows the open model, part by part.

    Attributes
    ----------
    selected : the head, or layer, that is looked at; None while the model as a whole is.
    """

    def __init__(self, app: Explorer) -> None:
        self._app = app
        self._model: ShownModel | None = None
        self.selected: Head | None = None

    @property
    def is_open(self) -> bool:
        """Whether a model is open."""
        return self._model is not None

    @property
    def weights(self) -> Weights | None:
        """What is known of the open model's weights, once there is one."""
        return None if self._model is None else self._model.weights

    @property
    def reading(self) -> Reading | None:
        """The open model's sentence, once there is one."""
        return None if self._model is None else self._model.reading

    @property
    def ways(self) -> Ways | None:
        """The ways through the open model, once there is one."""
        return None if self._model is None else self._model.ways

    @property
    def distance(self) -> Distance | None:
        """What turns the open model's QK, once there is one."""
        return None if self._model is None else self._model.distance

    @property
    def comparing(self) -> Comparing | None:
        """The open model's heads beside each other, once there is one."""
        return None if self._model is None else self._model.comparing

    def has(self, name: Head) -> bool:
        """Say whether the open model has a head or layer."""
        try:
            return self._model is not None and name.head < self._model.outline.layer(name).heads
        except EngineError:
            return False

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of what is selected."""
        if self._model is None or self.selected is None:
            return ()
        return self._model.outline.layer(self.selected).marks

    def step_position(self, step: int) -> None:
        """Go to what is predicted at another token."""
        if self._model is not None:
            self._app.key_line.say(self._model.step_position(step))

    @property
    def folds(self) -> bool:
        """Whether the gains of norms are to be folded into directions."""
        return self._model is not None and self._model.tables.folds

    @property
    def is_working_out(self) -> bool:
        """Whether escape would stop a table that is worked out."""
        return self._model is not None and self._model.tables.stoppable is not None

    def note(self, head: Head) -> tuple[str, ...]:
        """Give what the tree says beside a head, the longest first."""
        return () if self._model is None else self._model.weights.note(head)

    def learn(self, layer: Head, whole_layer: bool, answer: SpectraGroup | EngineError) -> None:
        """Keep what the sweep has found."""
        if self._model is not None:
            self._model.weights.learn(layer, whole_layer, answer)

    @property
    def name_of_several(self) -> tuple[str, str] | None:
        """Name the table of the active view and what it is of, where several heads are beside each other in it."""
        return None if self._model is None else self._model.comparing.named

    async def table_of_several(self) -> AnyTable | None:
        """Give the table of the active view, where several heads are beside each other in it.

        Raises
        ------
        EngineError : when the view shows nothing yet.
        """
        return None if self._model is None else await self._model.comparing.table()

    async def whole_map(self) -> AttentionMap:
        """Give all weights of the map on screen.

        Raises
        ------
        EngineError : when there is no map on screen, or it cannot be had any more.
        """
        if self._model is None:
            raise EngineError("no model is open yet; nothing was written")
        return await self._model.reading.whole_map()
