"""The keys of the overview that work anywhere, and what the overview asks of the explorer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.actions import ActionParseResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from engine.values.views import HEADS, OVERVIEW
from tui.key_groups import VIEWS
from tui.messages import ConditionWanted, HeadEntered, MeasureWanted, OverviewSeen, RankMeasureWanted
from tui.parts import Parts
from tui.state.overview_measures import measure_fields


class OverviewActions(Parts):
    """An application with the overview's keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "w",
            "overview",
            "All heads: overview or table; again: the other",
            show=False,
            id="app.overview",
            group=VIEWS,
        ),
    ]

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key does; one that works anywhere is of the head under the map's cursor, resting there or not."""
        if default_namespace is self and self.is_ready and (head := self.views.overview.settle()) is not None:
            self.conductor.go_to(head)
        return await super().run_action(action, default_namespace, namespaces)

    def action_overview(self) -> None:
        """Go to the map of all heads, or their table if that was looked at last; from each to the other."""
        self.conductor.look_at(OVERVIEW)

    @on(MeasureWanted)
    def _measure_wanted(self, event: MeasureWanted) -> None:
        """Show the measure that was named, or that of another group."""
        if self.is_ready and event.measure:
            self.conductor.overview.show_measure(event.measure)
        elif self.is_ready:
            self.conductor.overview.change_group(event.groups)

    @on(ConditionWanted)
    def _condition_wanted(self, event: ConditionWanted) -> None:
        """Show the heads of which a condition is true, in their table."""
        from tui.panes.filtered import FilteredPane  # for which the first frame does not wait

        if self.is_ready:
            self.conductor.show_view(HEADS.name)
            if isinstance(self.views.active, FilteredPane):
                self.views.active.call_after_refresh(self.views.active.filter_by, event.text)

    @on(RankMeasureWanted)
    def _rank_measure_wanted(self, event: RankMeasureWanted) -> None:
        """Show the measure that was named in the ranks view."""
        self.session.change(**measure_fields(self.session.shown, event.measure))

    @on(HeadEntered)
    def _head_entered(self, event: HeadEntered) -> None:
        """Go into a head, from a place that counts as visited, unless it is of a model that has been put away."""
        if not self.is_ready or not self.conductor.has(event.head):
            return
        if self.conductor.ways is not None:
            self.conductor.ways.leave()
        self.conductor.overview.enter(event.head)

    @on(OverviewSeen)
    def _overview_seen(self) -> None:
        """Draw what has become known while the overview was not in view."""
        if self.is_ready:
            self.conductor.overview.resume()
