"""Of a checkpoint larger than memory only what is looked at is read, and memory does not grow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.mathematics.spectra import layer_matrix
from engine.service.gaussian import factor_shapes, gaussian_layer
from engine.values.heads import MATRICES
from engine.values.model import LayerOutline
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
            if isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() not in given:
                self.largest = max(self.largest, each.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("circuit", ["QK", "OV"])
def test_no_copy_of_all_heads_is_made_for_a_product_of_the_few_that_are_shared(circuit: str) -> None:
    heads, shared, width, d_model = 32, 2, 16, 512
    query, key, value = (torch.randn(count, width, d_model).bfloat16() for count in (heads, shared, shared))
    output = torch.randn(heads, d_model, width).bfloat16()
    with Made() as made:
        layer_matrix(circuit, query, key, value, output)
    assert made.largest == 8 * shared * width * d_model
    outline = LayerOutline("decoder", 0, heads, shared, d_model, d_model, d_model, d_model, width, width, "")
    with Made() as made:
        factors = gaussian_layer(outline, (circuit,))
    assert made.largest == 8 * shared * width * d_model
    drawn = gaussian_layer(outline, MATRICES)
    assert [tuple(each.shape) for each in drawn] == list(factor_shapes(outline, heads, shared).values())
    alone, all_six = (layer_matrix(circuit, *each) for each in (factors, drawn))
    np.testing.assert_allclose(alone.numpy(), all_six.numpy(), rtol=1e-9)


PEAK = """
def peak():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) * 1024
"""


ONE_HEAD = (
    PEAK
    + """
import sys, torch
from engine.service.options import EngineOptions
from engine.service.session import Session
from engine.values.heads import Head
before = peak()
opened = Session.open(sys.argv[1], EngineOptions(device="cpu", use_cache=False), lambda progress: None)
spectra = opened.head_spectra(Head("decoder", 1, 5), lambda: None)
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
from engine.service.options import EngineOptions
from engine.service.session import Session
opened = Session.open(sys.argv[1], EngineOptions(device="cpu", use_cache=False), lambda progress: None)
sweep, peaks = opened.sweep(lambda: None), []
for _ in opened.outline.layers:
    next(sweep)
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
