"""Tests of the engine, in folders like its own."""
