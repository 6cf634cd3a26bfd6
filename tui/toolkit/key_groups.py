"""What keys that work anywhere are about, as the help puts them together."""

from __future__ import annotations

from textual.binding import Binding

VIEWS = Binding.Group("views")
MOVING = Binding.Group("finding one's way")
COMPARING = Binding.Group("heads beside each other")
SENTENCE = Binding.Group("sentence")
HEADS_OFF = Binding.Group("heads switched off")
MEASURING = Binding.Group("scales, measures, positions")
TAKING_AWAY = Binding.Group("copying and exporting")
PROGRAM = Binding.Group("program")

GROUPS = (MOVING, VIEWS, COMPARING, SENTENCE, HEADS_OFF, MEASURING, TAKING_AWAY, PROGRAM)
"""In the order of the help."""

NOT_OVER = ("jump", "command_palette")
"""Actions that come before all widgets, but leave what is over the explorer be."""
