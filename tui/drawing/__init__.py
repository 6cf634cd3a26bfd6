"""What the widgets draw with: colours, glyphs, labels, curves. Pure functions of values, with no widget in them."""
