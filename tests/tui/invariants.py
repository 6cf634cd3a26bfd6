"""What must agree in an explorer at rest, whatever was done before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import numpy as np

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head, head_text
from engine.values.options import EngineOptions
from tests.tui.explorer import outline_of, screen_text
from tui.app.explorer import Explorer


def disagreements(app: Explorer) -> Iterator[str]:
    """Report what does not agree."""
    yield from _in_selection(app)
    yield from _in_focus(app)


def _in_selection(app: Explorer) -> Iterator[str]:
    """Check that tree, session and views show the same head."""
    selected = app.session.shown.selected
    node = app.main.tree_widget.cursor_node
    under = None if node is None else node.data
    if selected != under and not (node is not None and node.data is None and node.parent is not None):
        yield f"{selected} is selected, and the tree's cursor is on line {app.main.tree_widget.cursor_line}, {under}"
    spectra = app.views.spectra
    if selected is not None and spectra.display:
        name, title = head_text(selected, outline_of(app).stacks), spectra.title_line.shown.plain
        has_room = spectra.title_line.size.width > len(name)  # of a terminal of a few columns it is cut
        if has_room and name not in title:
            yield f"{name} is selected, and the spectra say {title!r}"
    with contextlib.suppress(EngineError):  # where nothing is shown, which the view says
        app.views.active.table_subject()


def _in_focus(app: Explorer) -> Iterator[str]:
    """Check that the focus is on something visible."""
    focused = app.focused
    if len(app.screen_stack) > 1 or app.size.width < 40 or app.size.height < 12:
        return
    if focused is None:
        yield "nothing has the focus"
    elif not focused.is_on_screen or not focused.region.area:
        yield f"{focused!r} has the focus and is not to be seen"
    if not app.views.active.region.area:
        yield f"{app.views.active!r} is active and not to be seen"


def unanswered(app: Explorer, head: Head) -> Iterator[str]:
    """Report a head whose name or whose singular value is not shown."""
    spectra = app.views.spectra
    if str(head) not in spectra.title_line.shown.plain or " = " not in spectra.readout_line.shown.plain:
        yield f"{head} is not shown:\n{screen_text(app)}"


async def compare(app: Explorer, head: Head) -> None:
    """Check that the engine still computes the same as a fresh one."""
    name = outline_of(app).name
    fresh = Engine(EngineOptions(use_cache=False))
    try:
        await asyncio.wrap_future(fresh.open(name, lambda progress: None))
        expected = await asyncio.wrap_future(fresh.head_spectra(head))
    finally:
        fresh.stop()
    found = await asyncio.wait_for(asyncio.wrap_future(app.engine.head_spectra(head)), 30)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.singular_values, other.singular_values, rtol=1e-9, atol=1e-12, err_msg=str(head))
