"""A survey written by hand: two models, four steps, two layers of two heads, with values all different."""

from __future__ import annotations

from pathlib import Path

from engine.surveys.checkpoint_names import CheckpointName
from engine.surveys.survey_folder import SurveyFolder
from engine.values.table import Table

STEPS = (0, 1, 10, 100)
MODELS = ("somebody/one", "somebody/two")


def value(model: str, step: int, layer: int, head: int) -> float:
    """Give the made-up induction score of a head."""
    return (1 + MODELS.index(model)) * (0.1 * (1 + layer) + 0.01 * head + 1e-6 * step)


def label(step: int, layer: int, head: int) -> str:
    """Give the made-up label: L1H0 is an induction head from step 10 on, L0H1 looks back until step 1."""
    if (layer, head) == (1, 0) and step >= 10:
        return "induction"
    return "previous" if (layer, head) == (0, 1) and step <= 1 else ""


def write_checkpoint(folder: SurveyFolder, model: str, step: int) -> None:
    """Write the patterns and ranks of a checkpoint."""
    heads = [(layer, head) for layer in (0, 1) for head in (0, 1)]
    checkpoint = CheckpointName(model, f"step{step}", step)
    rows = [
        ("decoder", layer, str(head), label(step, layer, head), value(model, step, layer, head))
        for layer, head in heads
    ]
    patterns = Table.of_rows("patterns", ("stack", "layer", "head", "label", "induction"), rows)
    ranks = [
        ("decoder", layer, name, matrix, 10.0 + layer, 5.0 * (matrix == "QK") + 1)
        for layer, head in heads
        for name in (str(head), *(("all",) if head else ()))
        for matrix in ("QK", "OV")
    ]
    columns = ("stack", "layer", "head", "matrix", "stable_rank", "stable_rank_chance")
    for table in (patterns, Table.of_rows("ranks", columns, ranks)):
        folder.write(checkpoint, table, "{}")


def small_survey(path: Path) -> SurveyFolder:
    folder = SurveyFolder(path)
    folder.create({})
    for model in MODELS:
        for step in STEPS:
            write_checkpoint(folder, model, step)
    return folder
