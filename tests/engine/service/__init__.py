"""Requests and their progress."""
