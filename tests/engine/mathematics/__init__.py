"""Formulas, against answers known otherwise."""
