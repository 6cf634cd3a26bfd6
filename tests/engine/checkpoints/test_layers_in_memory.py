"""Of a checkpoint larger than memory only what is looked at is read, and memory does not grow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.analysis import decompositions
from engine.analysis.open_model import OpenModel
from engine.mathematics.spectra import layer_singular_values, singular_values
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.progress import finish
from tests.opening import run_apart
from tests.sparse_checkpoints import SHAPES, Shape, attention_shapes, random_weights, write_checkpoint


class Made(TorchDispatchMode):
    """Notes the largest tensor that is made, in bytes; what only looks at another one's numbers is not made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no annotation for it
        self.largest = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Do without torch's compiler, whose import takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {each.untyped_storage().data_ptr() for each in tree_leaves(args) if isinstance(each, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            is_made = isinstance(each, torch.Tensor) and not each.is_meta
            if is_made and each.untyped_storage().data_ptr() not in given:
                self.largest = max(self.largest, each.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("circuit", ["QK", "OV"])
def test_no_copy_of_all_heads_is_made_for_a_product_of_the_few_that_are_shared(circuit: str) -> None:
    heads, shared, width, d_model = 32, 2, 16, 512
    query, key, value = (torch.randn(count, width, d_model).bfloat16() for count in (heads, shared, shared))
    output = torch.randn(heads, d_model, width).bfloat16()
    with Made() as made:
        layer_singular_values(circuit, query, key, value, output)
    assert made.largest == 8 * shared * width * d_model


MANY = Shape(1, 512, 32, 2, 512, 1000, 1)
"""Sixteen heads to a key."""


def opened_in_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[OpenModel, OpenModel]:
    """Open a checkpoint twice: as it is, and as if its layers were large, whose matrices are computed one by one."""
    write_checkpoint(folder, MANY)
    options = EngineOptions(device="cpu", use_cache=False)
    plain, stepping = (OpenModel.open(str(folder), options, lambda progress: None) for _ in range(2))
    finish(plain.spectra.layer(Head("decoder", 0), True))
    monkeypatch.setattr("engine.values.outline.LARGE_LAYER", 0)
    return plain, stepping


@pytest.fixture
def one_core() -> Iterator[None]:
    """Have linear algebra done by one thread, as several add up in another order than one does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_core")
def test_heads_added_up_before_give_the_same_to_the_last_digit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, stepping = opened_in_steps(tmp_path / "many", monkeypatch)
    groups = [finish(each.spectra.layer(Head("decoder", 0), True)) for each in (plain, stepping)]
    for expected, found in zip(*(group.of(-1) for group in groups), strict=True):
        assert expected.matrix == found.matrix
        np.testing.assert_array_equal(expected.singular_values, found.singular_values)


def test_while_a_product_is_computed_the_heads_it_was_added_up_from_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, stepping = opened_in_steps(tmp_path / "many", monkeypatch)
    held, compute = list[int](), singular_values
    summed = 8 * MANY.key_value_heads * MANY.head_dim * MANY.d_model

    def tensors() -> list[torch.Tensor]:
        return [each for each in gc.get_objects() if type(each) is torch.Tensor]

    def noting(*arguments: Any) -> Any:
        held.append(max(each.untyped_storage().nbytes() for each in tensors() if id(each) not in others))
        return compute(*arguments)

    kept = tensors()  # what is left of other work stays, so that nothing new is taken for it
    others = set(map(id, kept))

    monkeypatch.setattr(decompositions, "singular_values", noting)
    for circuit in ("QK", "OV"):
        finish(stepping.spectra.layer(Head("decoder", 0), True, (circuit,)))
    assert held == [summed, summed]


def test_to_see_that_a_matrix_is_not_zero_takes_no_memory_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.checkpoints.tensor_reader.MOST_WHOLE", 0)  # what is not wanted is not read either
    _, stepping = opened_in_steps(tmp_path / "many", monkeypatch)
    with Made() as made:
        finish(stepping.spectra.layer(Head("decoder", 0), True, ("K",)))
    assert made.largest <= 8 * MANY.key_value_heads * MANY.head_dim * MANY.d_model


PEAK = """
def peak():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) * 1024
"""


ONE_HEAD = (
    PEAK
    + """
import sys, torch
from engine.analysis.open_model import OpenModel
from engine.values.options import EngineOptions
from engine.values.progress import finish
from engine.values.heads import Head
before = peak()
opened = OpenModel.open(sys.argv[1], EngineOptions(device="cpu", use_cache=False), lambda progress: None)
spectra = finish(opened.spectra.head(Head("decoder", 1, 5)))
print(peak() - before, *(float(each.singular_values[0]) for each in spectra))
"""
)


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")


@on_linux
def test_a_head_of_a_large_checkpoint_is_read_in_little_memory(tmp_path: Path) -> None:
    shape = SHAPES["70b"]
    folder = write_checkpoint(tmp_path / "70b", shape, filled=(1,), rows=1024)
    grown, *largest = run_apart(ONE_HEAD, folder, OMP_NUM_THREADS="1").split()
    numbers = sum(rows * columns for rows, columns in attention_shapes(shape).values())
    assert int(grown) < 8 * numbers // 4  # a quarter of the layer's copy in float64
    query = random_weights(1024, shape.d_model, "model.layers.1.self_attn.q_proj.weight")[5 * 128 : 6 * 128]
    exact = np.linalg.norm((query.astype(np.uint32) << 16).view(np.float32).astype(np.float64), 2)
    assert float(largest[0]) == pytest.approx(exact, rel=1e-9)


SWEEP = (
    PEAK
    + """
import sys, torch
from engine.analysis.open_model import OpenModel
from engine.values.options import EngineOptions
from engine.values.progress import finish
opened = OpenModel.open(sys.argv[1], EngineOptions(device="cpu", use_cache=False), lambda progress: None)
peaks = []
for layer in opened.outline.layers:
    finish(opened.spectra.layer(layer.name, False))
    peaks.append(peak())
print(peaks[1], peaks[-1])
"""
)


@on_linux
def test_the_sweep_holds_one_layer_at_a_time(tmp_path: Path) -> None:
    shape = Shape(14, 2176, 17, 17, 4608, 1000, 3)
    folder = write_checkpoint(tmp_path / "wide", shape, filled=(0, 1, 2))  # those of the others are read, too
    after_two, after_all = map(int, run_apart(SWEEP, folder, OMP_NUM_THREADS="1").split())
    stored = 2 * sum(rows * columns for rows, columns in attention_shapes(shape).values())
    assert after_all - after_two < 3 * stored  # twelve more layers; memory that is given back in pieces is some of it
