"""What keys that work anywhere are about, as the help puts them together."""

from __future__ import annotations

from textual.binding import Binding

VIEWS = Binding.Group("views")
MOVING = Binding.Group("finding one's way")
SENTENCE = Binding.Group("sentence")
HEADS_OFF = Binding.Group("heads switched off")
MEASURING = Binding.Group("scales, measures, positions")
PROGRAM = Binding.Group("files and program")

GROUPS = (MOVING, VIEWS, SENTENCE, HEADS_OFF, MEASURING, PROGRAM)
"""In the order of the help; keys without a group come after them."""
