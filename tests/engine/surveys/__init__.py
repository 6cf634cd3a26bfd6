"""Tests of surveys: many checkpoints, one folder."""
