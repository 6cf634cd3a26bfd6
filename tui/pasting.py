"""What a terminal sends as keys and pasted text: escape and the key after it, and no more of a text than is text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from textual._xterm_parser import BRACKETED_PASTE_END as END
from textual._xterm_parser import BRACKETED_PASTE_START as START
from textual._xterm_parser import XTermParser
from textual.events import Key
from textual.message import Message

NO_TEXT = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # a control sequence, such as a colour
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # a string for the terminal, such as a link
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # other control characters, but no tab and no end of a line
)
"""What is left out of a pasted text (ECMA-48, 5.4 and 5.6)."""

ENTER, AS_COOKED = "\r", "\n"
"""What Enter sends, and what a terminal makes of it (ICRNL) until the program has told it to leave keys as they are."""

ESCAPE = "\x1b"
"""What escape sends, and what many keys begin with."""

BEGINNINGS = ("\x1b[", "\x1bO")
"""How keys begin that are more than a letter behind an escape character (ECMA-48, 5.3)."""


class BehindEscape(Key):
    """A key that came right behind an escape character: held with alt, or pressed after escape, nobody can tell.

    Attributes
    ----------
    in_field : what the toolkit takes both for, such as a word to the right.
    apart : escape, and the key.
    """

    def __init__(self, name: str, in_field: Key, key: Key) -> None:
        super().__init__(name, None)
        self.in_field = in_field
        self.apart = (Key("escape", ESCAPE), key)


class PasteParser(XTermParser):
    """Reads what a terminal sends; a paste is held back until it is complete.

    Of escape and another key that are read together the toolkit drops the first, or makes one key of both: with ``1``
    an inverted exclamation mark. Here they stay what they may be.

    The toolkit takes an escape character in a pasted text for the beginning of a key, and what follows it up to where
    no key begins so is typed before the text, or lost. What Enter became while the program started it takes for ctrl+j.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._before = ""
        self._pasted: str | None = None
        self._longest = 0

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        """Give the keys of what has come behind an escape character, or the key of one character."""
        found = tuple(super()._sequence_to_key_events(sequence, alt))
        if sequence.startswith(ESCAPE):
            self._longest = len(sequence)
        is_begun = sequence in BEGINNINGS or sequence == 2 * ESCAPE
        is_late = alt and self._longest == 2  # when nothing more followed what could have begun a longer key
        if not is_late and (is_begun or len(sequence) != 2 or not sequence.startswith(ESCAPE)):
            return found
        (key,) = super()._sequence_to_key_events(sequence[-1])
        upper = key.key.isupper() and len(key.key) == 1
        name = f"alt+shift+{key.key.lower()}" if upper else f"alt+{key.key}"
        return (BehindEscape(name, found[0] if found else key, key),)

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
