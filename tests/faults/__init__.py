"""Planted faults, each a patch of the product, and a program that shows which of them the tests catch."""
