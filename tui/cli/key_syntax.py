"""How a person writes a key, how the toolkit calls it, and whether there is one that a terminal sends."""

from __future__ import annotations

import unicodedata

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import KEY_DISPLAY_ALIASES, KEY_TO_UNICODE_NAME, REPLACED_KEYS, _character_to_key, format_key

from tui.key_names import IN_ASCII

MODIFIERS = {"ctrl", "shift", "alt", "meta", "super", "hyper"}
"""What can stand before a key, with a plus sign."""

WRITTEN_SO = "n, N, ?, f5, ctrl+n, shift+left, pagedown"
"""Examples of keys."""

ALONE = {"enter", "tab", "escape", "backspace", "space"}
"""Keys of one byte, for which terminals send the same whatever is held with them; only shift+tab has its own."""

COOKED = {"ctrl+j": "enter"}
"""What is made of a key by `tui.pasting` before anything sees it."""

NUL = "ctrl+@"
"""What the toolkit calls the byte zero, which it writes otherwise than all other signs."""

TWICE = "gg"
"""What two quick presses of g come as."""

_NAMED = {
    key.value.rpartition("+")[2]
    for keys in ANSI_SEQUENCES_KEYS.values() if isinstance(keys, tuple)
    for key in keys
    if not key.value.startswith("<")
}  # fmt: skip
"""The keys without a sign that a terminal can send."""

_DISPLAYED = {shown: key for key, shown in (*KEY_DISPLAY_ALIASES.items(), *IN_ASCII.items())}
"""Keys by what the screen calls them."""

_HELD = "^"
"""What the screen puts before a key that is held with ctrl."""

_LAST_ON_KEYBOARDS = "\uffff"
"""Signs beyond this one, pictures for the most part, are on no keyboard."""


def keys_in(written: str) -> tuple[str, ...]:
    """Take a list of keys apart, each by the name that the toolkit has for it."""
    return tuple(as_pressed(key) for key in map(str.strip, written.split(",")) if key)


def as_pressed(written: str) -> str:
    """Name a key as the toolkit does when it is pressed, also where the screen or a person calls it otherwise.

    Examples
    --------
    >>> as_pressed("esc"), as_pressed("?"), as_pressed("shift+a"), as_pressed("shift+ctrl+pgdn")
    ('escape', 'question_mark', 'A', 'ctrl+shift+pagedown')
    >>> as_pressed("^x"), as_pressed("shift+^←"), as_pressed("^"), as_pressed("ctrl+space")
    ('ctrl+x', 'ctrl+shift+left', 'circumflex_accent', 'ctrl+space')
    """
    *modifiers, last = written.split("+") if len(written) > 1 else (written,)
    if last.startswith(_HELD) and last != _HELD:
        modifiers, last = sorted({*modifiers, "ctrl"}), last.removeprefix(_HELD)
    sign = last if len(last) == 1 else _sign(last)
    last = _DISPLAYED.get(last) or (_character_to_key(sign) if sign else last)
    if modifiers == ["shift"] and len(last) == 1 and last.isalpha():
        return last.upper()
    name = "+".join((*sorted(modifiers), last))
    return NUL if name == "ctrl+at" else name


def sent_as(key: str) -> str:
    """Name the key that comes for one from a terminal that sends bytes alone; for most that is itself.

    With ctrl such a terminal sends a letter's or a sign's control code (ECMA-48, 5.2), for some digits and a stroke
    those that no letter has (X Keyboard Extension Library, 12.1.2.2), and for all others the sign as it is.

    Examples
    --------
    >>> sent_as("ctrl+q"), sent_as("ctrl+i"), sent_as("ctrl+j"), sent_as("ctrl+3"), sent_as("ctrl+comma")
    ('ctrl+q', 'tab', 'enter', 'escape', 'comma')
    >>> sent_as("ctrl+shift+f"), sent_as("ctrl+enter"), sent_as("shift+tab"), sent_as("alt+enter"), sent_as("ctrl+f5")
    ('ctrl+f', 'enter', 'shift+tab', 'alt+enter', 'ctrl+f5')
    """
    *modifiers, last = key.split("+")
    if not modifiers or not set(modifiers) <= {"ctrl", "shift"}:
        return key
    if "ctrl" not in modifiers or (last in ALONE and last != "space"):
        is_own = last == "tab" and "shift" in modifiers
        return "shift+tab" if is_own else last if last in ALONE else key
    sign = last if len(last) == 1 else _sign(last)
    if not sign or not sign.isascii():
        return key
    code = _control_code(sign)
    if code is None:
        return last
    sent = ANSI_SEQUENCES_KEYS[chr(code)]
    name = str(sent[0].value) if isinstance(sent, tuple) else last
    return COOKED.get(name, name)


def _control_code(sign: str) -> int | None:
    """Give the control code that a sign has when it is held with ctrl; None where it has none."""
    if sign == " " or "@" <= sign <= "~":
        return ord(sign) & 0x1F
    return {"2": 0x00, "3": 0x1B, "4": 0x1C, "5": 0x1D, "6": 0x1E, "7": 0x1F, "8": 0x7F, "/": 0x1F}.get(sign)


def _sign(name: str) -> str:
    """Give the sign that has a name, or nothing where none on a keyboard has."""
    name = REPLACED_KEYS.get(name, name)
    try:
        sign = unicodedata.lookup(KEY_TO_UNICODE_NAME.get(name, name.replace("_", " ")))
    except KeyError:
        return ""
    return sign if sign <= _LAST_ON_KEYBOARDS and sign.isprintable() else ""


def readable(key: str) -> str:
    """Write a key as one would look for it: a sign by itself, but a comma, which separates keys, by its name.

    Examples
    --------
    >>> readable("question_mark"), readable("comma"), readable("ctrl+q")
    ('?', 'comma', 'ctrl+q')
    """
    sign = format_key(key)
    return sign if len(sign) == 1 and sign.isascii() and sign not in ',"\\' and "+" not in key else key


def is_key(key: str) -> bool:
    """Say whether there is a key of a name that `as_pressed` has given.

    With a modifier a terminal sends named keys, and of signs those of ASCII; what shift alone makes of a sign is
    another sign, and with other modifiers a capital is written as shift and its small letter.

    Examples
    --------
    >>> is_key("ctrl+n"), is_key("question_mark"), is_key("f5"), is_key("ctrl+nonsense"), is_key("shift+1")
    (True, True, True, False, False)
    """
    *modifiers, last = key.split("+")
    if not set(modifiers) <= MODIFIERS:
        return False
    sign = last if len(last) == 1 else _sign(last)
    if not sign:
        return last in _NAMED or key == TWICE
    return not modifiers or (sign.isascii() and not sign.isupper() and (modifiers != ["shift"] or sign.isspace()))


def is_letter(key: str) -> bool:
    """Say whether a key is typed into a line as it is.

    Examples
    --------
    >>> is_letter("g"), is_letter("space"), is_letter("ctrl+g"), is_letter("f5")
    (True, True, False, False)
    """
    return "+" not in key and (len(key) == 1 or bool(_sign(key)))


def why_no_keys(written: str) -> str:
    """Say what is wrong with keys as a person has written them; nothing where each can be had.

    Examples
    --------
    >>> why_no_keys("n,gg"), why_no_keys("")
    ('', '')
    >>> why_no_keys("gt")
    'gt is no key; of keys pressed one after the other there is gg alone'
    >>> why_no_keys("Esc,n")
    'Esc is no key; write escape'
    >>> why_no_keys(" ")
    'a space is written space'
    """
    keys = keys_in(written)
    if written and not keys:
        return "a comma, which stands between keys, is written comma" if "," in written else "a space is written space"
    unknown = [key for key in keys if not is_key(key)]
    if not unknown:
        return ""
    lower = [as_pressed(key.lower()) for key in unknown]
    is_case = [key.lower() for key in unknown] != unknown and all(map(is_key, lower))
    how = f"write {', '.join(lower)}" if is_case else f"keys are written {WRITTEN_SO}"
    if not is_case and any(len(two := key.replace(" ", "")) == len(TWICE) and two.isalpha() for key in unknown):
        how = f"of keys pressed one after the other there is {TWICE} alone"
    return f"{', '.join(unknown)} is no key; {how}"
