"""Screens other than the main one, and what they do."""
