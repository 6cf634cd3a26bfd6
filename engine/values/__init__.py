"""Small frozen dataclasses that cross from the engine to the screen; they hold numbers, strings and NumPy arrays."""
