"""Measurements against the budgets, run by hand; nothing here is a test."""
