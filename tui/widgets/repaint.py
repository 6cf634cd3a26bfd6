"""Painting something else in the same styles: those of a widget's parts are not worked out again for it."""

from __future__ import annotations

from textual.geometry import Region
from textual.widget import Widget


def repaint(widget: Widget, *regions: Region) -> None:
    """Paint regions of a widget anew, or all of it where none is given, in the styles that are known.

    The toolkit's `Widget.refresh` takes every change for one of the styles, and works out those of all parts anew,
    which takes longer than painting does. A theme, a class or the focus, which do change them, call that one.
    """
    known = dict(widget._rich_style_cache)
    widget.refresh(*regions)
    widget._rich_style_cache.update(known)
