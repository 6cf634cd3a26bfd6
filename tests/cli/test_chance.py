"""Exported chance, against a simulation with NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import transformers
from numpy.typing import NDArray

from engine.values.heads import MATRICES
from engine.values.table import RANK_COLUMNS
from tests.cli.test_export import KEY_HEADS, matrices_of, noise_in, reference
from tests.conftest import TinyModel
from tests.exporting import exported

DRAWS = 50
"""Heads, and layers, that a test simulates."""

Factors = dict[str, NDArray[np.float64]]


def gaussian(like: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Draw a Gaussian matrix of the shape and the Frobenius norm of another."""
    drawn = random.standard_normal(like.shape)
    return np.asarray(drawn * (np.linalg.norm(like) / np.linalg.norm(drawn)))


def simulated(own: Factors, heads: int, shared: int, random: np.random.Generator) -> Factors:
    """Draw factors like a layer's and multiply them out; so many heads share each key and value, 1 and 1 for a head."""
    drawn = {matrix: gaussian(own[matrix], random) for matrix in "QKVO"}
    width = drawn["Q"].shape[0] // heads
    key, value = (
        np.repeat(drawn[matrix].reshape(-1, width, drawn[matrix].shape[1]), shared, axis=0).reshape(heads * width, -1)
        for matrix in "KV"
    )
    return drawn | {"QK": drawn["Q"].T @ key, "OV": value.T @ drawn["O"].T}


@pytest.mark.parametrize("model_type", KEY_HEADS)
@pytest.mark.parametrize("label", ["2", "all"])
def test_chance_is_what_a_simulation_gives_within_its_error(tiny_model: TinyModel, model_type: str, label: str) -> None:
    folder = tiny_model(model_type)
    dense = matrices_of(transformers.AutoModel.from_pretrained(folder), 1)
    own = {matrix: dense[label, matrix] for matrix in "QKVO"}
    heads, shared = (1, 1) if label == "2" else (4, 4 // KEY_HEADS[model_type])
    random = np.random.default_rng(5)
    draws = [simulated(own, heads, shared, random) for _ in range(DRAWS)]
    spread = math.sqrt((1 / 8 if label == "2" else 1) + 1 / DRAWS)  # chance is the mean of 8 heads, or one layer
    options = ("--layer", "1", "--head", label)

    def check(found: float, values: NDArray[np.float64], what: tuple[object, ...]) -> None:
        error = max(4 * spread * float(values.std(ddof=1)), 1e-6 * abs(float(values.mean())))
        assert found == pytest.approx(values.mean(), abs=error), what

    for row in exported(folder, "ranks", "--energy", "0.05", *options):
        matrix = row["matrix"]
        rank = min(*dense[label, matrix].shape, *(min(own[factor].shape) for factor in matrix))
        measured = [reference(each[matrix], rank, 0.05, noise_in(each, matrix, shared)) for each in draws]
        for measure in RANK_COLUMNS[6:]:
            found, values = float(row[f"{measure}_chance"]), np.array([each[measure] for each in measured])
            if measure == "condition_number" and label == "all":
                found, values = math.log(found), np.log(values)  # of square matrices it has no mean
            check(found, values, (matrix, measure))
    sigma = {matrix: np.array([np.linalg.svd(each[matrix], compute_uv=False) for each in draws]) for matrix in MATRICES}
    for row in exported(folder, "spectrum", *options):
        check(float(row["chance"]), sigma[row["matrix"]][:, int(row["index"]) - 1], (row["matrix"], row["index"]))
