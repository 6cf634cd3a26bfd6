"""Every key that the explorer has is pressed by some test."""

from __future__ import annotations

import re
from pathlib import Path

from textual.keys import _character_to_key

from tui.key_table import bindings

WHERE = Path(__file__).parent

_PRESSES = re.compile(r"(?:press|send|type_keys|keys?)\b[^\n]*|\([\[(]?\"[^\n]*")
_WORDS = re.compile(r"[\"']([^\"'\s]+)[\"']")


def pressed() -> set[str]:
    """Give all keys that tests of the explorer name where they press some."""
    found: set[str] = set()
    for file in WHERE.glob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if "pilot" not in text and "terminal" not in text:
            continue
        for line in _PRESSES.findall(text):
            for word in _WORDS.findall(line):
                found |= {word, *(_named(character) for character in (word if len(word) < 40 else ""))}
    return found


def _named(character: str) -> str:
    """Give a character's name as a key."""
    return character if character.isalnum() else _character_to_key(character)


def test_every_binding_is_pressed_by_a_test() -> None:
    keys: dict[str, set[str]] = {}
    for binding in bindings():
        assert binding.id is not None
        keys.setdefault(binding.id, set()).add(binding.key)
    done = pressed()
    missing = sorted(f"{name} ({' or '.join(sorted(of))})" for name, of in keys.items() if not of & done)
    assert not missing, f"press these in a Pilot test, with pilot.press: {', '.join(missing)}"
