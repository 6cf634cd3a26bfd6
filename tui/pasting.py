"""What a terminal says is pasted, without what only terminals obey."""

from __future__ import annotations

import re
from collections.abc import Iterable

from textual._xterm_parser import BRACKETED_PASTE_END as END
from textual._xterm_parser import BRACKETED_PASTE_START as START
from textual._xterm_parser import XTermParser
from textual.message import Message

NO_TEXT = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # a control sequence, such as a colour
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # a string for the terminal, such as a link
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # other control characters, but no tab and no end of a line
)
"""What is left out of a pasted text (ECMA-48, 5.4 and 5.6)."""

ENTER, AS_COOKED = "\r", "\n"
"""What Enter sends, and what a terminal makes of it (ICRNL) until the program has told it to leave keys as they are."""


class PasteParser(XTermParser):
    """Reads what a terminal sends; a paste is held back until it is complete.

    The toolkit takes an escape character in a pasted text for the beginning of a key, and what follows it up to where
    no key begins so is typed before the text, or lost. What Enter became while the program started it takes for ctrl+j.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._before = ""
        self._pasted: str | None = None

    def feed(self, data: str) -> Iterable[Message]:
        """Read what has come; a paste, and what tells where one begins and ends, may come in parts."""
        if not data:  # the end of all
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                seen = self._before + data
                at = seen.find(START)
                taken = len(data) if at < 0 else at + len(START) - len(self._before)
                self._before = seen[1 - len(START) :] if at < 0 else ""
                self._pasted = None if at < 0 else ""
                yield from super().feed(data[:taken].replace(AS_COOKED, ENTER))
                data = data[taken:]
            else:
                come = max(len(self._pasted) + 1 - len(END), 0)
                self._pasted += data
                at = self._pasted.find(END, come)
                if at < 0:
                    return
                text, data, self._pasted = self._pasted[:at], self._pasted[at + len(END) :], None
                yield from super().feed(NO_TEXT.sub("", text) + END)
