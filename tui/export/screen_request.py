"""What is on screen, as a request of ``attn-tui export``: with the same sentence, distance, ε and heads off."""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, Any

from engine.mathematics.measures import DEFAULT_EPSILON
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.outline import ModelOutline
from engine.values.views import DEFAULT_TOP, NEEDS, VIEWS, Scope
from tui.export.request import APPLICABLE, Request
from tui.toolkit.keys import key_of
from tui.views.filtered import FilteredPane

if TYPE_CHECKING:
    from tui.state.session import Session
    from tui.views.switcher import Views

SPELLED = {"by_mean": "mean", "fold_norm": "fold-norm"}
"""Options that are called otherwise on the command line than in a request."""


class ScreenRequests:
    """Turns the explorer's state into requests.

    Parameters
    ----------
    outline : of the open model.
    options : with which it was opened.
    session : which says what is shown.
    views : what is on screen.
    """

    def __init__(
        self,
        outline: ModelOutline,
        options: EngineOptions,
        session: Session,
        views: Views,
    ) -> None:
        self._outline = outline
        self._options = options
        self._session = session
        self._views = views

    def distance(self, view: str) -> int | None:
        """Give the distance at which QK is taken, where a table has one."""
        return self._session.shown.distance if "distance" in APPLICABLE[view] else None

    @property
    def without(self) -> str:
        """Say in the name of a map's file which heads are switched off."""
        heads = self._session.shown.off.heads
        return f"-without-{'-'.join(map(str, heads))}" if heads else ""

    def matrices(self, selected: Head | None) -> Request:
        """Ask for the matrices of a head, of a layer's heads, or of all (None)."""
        if selected is None:
            return _request("matrices")
        head = None if selected.is_layer else str(selected.head)
        return _request("matrices", layer=str(selected.layer), head=head, stack=selected.stack)

    def whole(self, view: str) -> Request:
        """Ask for a table of the whole model.

        Raises
        ------
        EngineError : when it takes a sentence or a cell that there is none of.
        """
        options, shown = APPLICABLE[view], self._session.shown
        text = shown.text
        if "text" in NEEDS.get(view, ()) and not text:
            raise EngineError(f"{view} is of a sentence; type one with {key_of(self._views.app, 'app.sentence')} first")
        asked: dict[str, Any] = {}
        if view in VIEWS:
            asked |= self._of_table(view)
        if "distance" in options and shown.distance is not None:
            asked["distance"] = shown.distance
        off = shown.off
        if "off" in options and off.heads:
            is_of_several = len(self._outline.stacks) > 1
            asked["off"] = (" ".join(f"{head.stack}.{head}" if is_of_several else str(head) for head in off.heads),)
            asked["by_mean"] = off.by_mean or None
        is_of_two = "vs" in NEEDS.get(view, ()) or (view == "attention" and shown.difference and not off.heads)
        is_of_two = is_of_two or (self._options.is_comparing and view in VIEWS and bool(VIEWS[view].beside))
        epsilon = shown.epsilon if "energy" in options else DEFAULT_EPSILON
        return _request(
            view,
            text=text or None if "text" in options else None,
            energy=None if epsilon == DEFAULT_EPSILON else epsilon,
            asked=asked,
            vs=is_of_two,
        )

    def _of_table(self, name: str) -> dict[str, Any]:
        """Give the options of a table that is worked out, as far as they are not the command's own."""
        view, shown = VIEWS[name], self._session.shown
        found: dict[str, Any] = {
            option: getattr(shown, option) for option in ("position", "token") if option in view.options
        }
        if view.scope is Scope.CELL:
            found["position"], found["key"] = self._views.attention.cell or (None, None)
        if "top" in view.options and view.scope is Scope.MODEL and view.top != DEFAULT_TOP:
            found["top"] = view.top
        if "fold_norm" in view.options and shown.folds:
            found["fold_norm"] = True
        return found | ({"norms": True} if "norms" in view.options else {})

    def on_screen(self, view: str) -> dict[str, Any]:
        """Say what shaped a table that is on screen, as far as its rows do not: options of such an export, a filter."""
        pane, shaped = self._views.active, {"rows": "as on screen"}
        if view in APPLICABLE:
            with contextlib.suppress(EngineError):  # of a table without its sentence there is nothing else to say
                shaped |= self.whole(view).given()
        if isinstance(pane, FilteredPane) and pane.narrowing is not None:
            shaped |= {"where": pane.narrowing.text.strip()}
        return shaped

    def folded(self, view: str) -> str:
        """Say in the name of a table's file that the gains of norms are folded in."""
        return "-folded" if view in VIEWS and "fold_norm" in VIEWS[view].options and self._session.shown.folds else ""

    def command(self, view: str) -> str:
        """Write such a request as a command.

        Raises
        ------
        EngineError : when it takes a sentence that there is none of.
        """
        words = ["attn-tui", "export", self._outline.name, view]
        opened = {
            "revision": self._options.revision, "base": self._options.base, "layout": self._options.layout,
            "vs": self._options.other, "vs-revision": self._options.other_revision,
        }  # fmt: skip
        request = self.whole(view)
        given = {name: value for name, value in request.given().items() if name != "vs"}
        given |= {name: value for name, value in opened.items() if value and (request.vs or not name.startswith("vs"))}
        for name, value in given.items():
            for each in value if isinstance(value, tuple) else (value,):
                words += [f"--{SPELLED.get(name, name)}"] + ([] if each is True else [str(each)])
        return shlex.join(words)


def _request(view: str, **narrowed: Any) -> Request:
    """Make a request that is narrowed by nothing else."""
    names = ("layer", "head", "stack", "matrix", "text", "energy", "where", "output")
    nothing: dict[str, Any] = dict.fromkeys(names)
    return Request(view, **(nothing | narrowed))
