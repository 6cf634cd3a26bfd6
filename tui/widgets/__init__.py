"""Widgets that draw the engine's values; each can be used by itself, in any Textual application."""
