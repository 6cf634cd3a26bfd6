"""Widgets alone in an application."""
