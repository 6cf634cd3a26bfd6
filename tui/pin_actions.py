"""The keys with which heads are compared."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from tui.key_groups import COMPARING
from tui.messages import RoomChanged
from tui.parts import Parts
from tui.state.session import Averaging


class PinActions(Parts):
    """An application in which heads can be pinned and seen beside each other."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("P", "pin", "Pin the head to compare it, or unpin it", show=False, id="app.pin", group=COMPARING),
        Binding(
            "C",
            "compare",
            "Compare pinned heads: spectra, maps, difference",
            show=False,
            id="app.compare",
            group=COMPARING,
        ),
        Binding("A", "maps", "Layer maps: all heads of the layer", show=False, id="app.maps", group=COMPARING),
    ]

    @on(RoomChanged)
    def _room_changed(self) -> None:
        """Draw several heads with the detail that there is room for now."""
        if self.is_ready and self.conductor.comparing is not None:
            self.conductor.comparing.draw()

    def action_pin(self) -> None:
        """Pin the selected head, or unpin it."""
        if self.conductor.comparing is not None:
            self.conductor.comparing.pin()

    def action_compare(self) -> None:
        """Show the pinned heads beside each other, or the next thing of them."""
        if self.conductor.comparing is not None:
            self.conductor.comparing.compare()

    def action_maps(self) -> None:
        """Show all heads of the selected layer as small maps."""
        if self.conductor.comparing is not None:
            self.conductor.comparing.show_heads()

    def action_open_map(self, view: str) -> None:
        """Show the selected head's map in large, from where escape leads back to the view that it was opened from."""
        self.views.attention.opened_from = view
        self.session.change(averaging=Averaging.NOTHING)
        self.conductor.look_at(self.views.attention.view)
