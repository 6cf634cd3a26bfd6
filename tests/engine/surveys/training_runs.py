"""Tiny training runs for tests: folders of checkpoints whose weights differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests import tiny_models


def training_run(folder: Path, steps: Sequence[int], model_type: str = "llama") -> Path:
    """Save a random model for each step, as ``checkpoint-STEP``."""
    for step in steps:
        model = tiny_models.build(tiny_models.configuration(model_type), with_head=True, seed=step)
        tiny_models.save(model, folder / f"checkpoint-{step}")
    return folder
