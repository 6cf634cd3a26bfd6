"""Keys that go by pages, alike wherever there is something to go through: those of terminals, and those of vim."""

from __future__ import annotations

from textual.binding import Binding


def paging(id: str, of: str = "A page", half: str = "Half a page") -> list[Binding]:
    """Give the bindings of what has an ``action_page`` that takes a number of pages, which may be a half.

    Parameters
    ----------
    id : the first part of the bindings' ids.
    of, half : what one press goes by.
    """
    return [
        Binding("pagedown,ctrl+f", "page(1)", f"{of} down", show=False, id=f"{id}.page_down"),
        Binding("pageup,ctrl+b", "page(-1)", f"{of} up", show=False, id=f"{id}.page_up"),
        Binding("ctrl+d", "page(0.5)", f"{half} down", show=False, id=f"{id}.half_down"),
        Binding("ctrl+u", "page(-0.5)", f"{half} up", show=False, id=f"{id}.half_up"),
    ]


def lines_of(pages: float, page: int) -> int:
    """Give the lines of so many pages: of a half at least one.

    Examples
    --------
    >>> lines_of(1, 12), lines_of(-0.5, 12), lines_of(0.5, 1), lines_of(-1, 0)
    (12, -6, 1, -1)
    """
    return int(pages * page) or (1 if pages > 0 else -1)
