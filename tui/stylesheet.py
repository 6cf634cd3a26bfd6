"""The toolkit's stylesheet, which parses no rule twice for the same colours.

The toolkit reads its rules for the colours of its own default theme when an application is made, and all of them again
once it runs, for those of the theme that was chosen: a tenth of the work before the first frame.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.css.stylesheet import Stylesheet


class OnceParsed(Stylesheet):
    """Reads the colours when the first rule is parsed, and parses again where they have changed since.

    Parameters
    ----------
    colours : gives the variables of the present theme.
    """

    def __init__(self, colours: Callable[[], dict[str, str]]) -> None:
        super().__init__()
        self._colours = colours
        self._is_stale = False

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take other variables."""
        if variables != self._variables:
            super().set_variables(variables)
            self._is_stale = bool(self._rules)

    def parse(self) -> None:
        """Parse what has been added."""
        if not self._rules:
            super().set_variables(self._colours())
        super().parse()

    def reparse(self) -> None:
        """Parse everything again, unless the variables are those that it was parsed with."""
        if self._is_stale:
            super().reparse()
            self._is_stale = False
