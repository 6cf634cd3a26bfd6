"""Formulas, compared with independent answers."""
