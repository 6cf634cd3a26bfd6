"""What chance gives, waited for where a table is to have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.values.heads import Head
from tui.panes.ranks import RanksPane
from tui.panes.spectra import SpectraPane

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from tui.conductor import Conductor
    from tui.knowledge import Knowledge
    from tui.views import Views


async def learn_baselines(engine: Engine, knowledge: Knowledge, names: Callable[[], Sequence[Head]]) -> None:
    """Learn what chance gives beside the spectra that are known of heads and layers.

    Parameters
    ----------
    names : gives them; asked anew after every answer, for a person goes on meanwhile.

    Raises
    ------
    EngineError : when it cannot be computed.
    """
    while missing := knowledge.without_baseline(names()):
        name = missing[0]
        baseline = await asyncio.wrap_future(engine.baseline(name.whole_layer, name.is_layer))
        assert baseline is not None, "changes of weights, which have none, are not listed"
        knowledge.learn_baseline(knowledge.outline.layer(name), name.is_layer, baseline)


async def learn_baselines_on_screen(engine: Engine, views: Views, conductor: Conductor) -> None:
    """Learn what chance gives beside the spectra or ranks that the active view shows, where it shows such.

    Raises
    ------
    EngineError : when it cannot be computed.
    """
    weights = conductor.weights
    if weights is None:
        return
    knowledge = weights.knowledge

    def names() -> Sequence[Head]:
        selected = conductor.selected
        if isinstance(views.active, RanksPane):
            return knowledge.names_beside(selected)
        return [selected] if isinstance(views.active, SpectraPane) and selected is not None else []

    await learn_baselines(engine, knowledge, names)
