"""The views beside the tree: one module for each, and the switcher between them."""
