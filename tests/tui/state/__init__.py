"""Tests of what the explorer shows and knows."""
