"""Torch's library is mapped without torch being imported, and the import that follows works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.service.preload import preload_torch

CODE = """
import sys
from pathlib import Path
from engine.service.preload import preload_torch
thread = preload_torch()
thread.join()
print("torch" in sys.modules, "libtorch_cpu" in Path("/proc/self/maps").read_text())
import torch
print(torch.linalg.svdvals(torch.diag(torch.tensor([3.0, 2.0]))).tolist())
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists what a process has mapped")
def test_the_library_is_mapped_before_torch_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False True", "[3.0, 2.0]"]


def test_without_torch_nothing_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    assert preload_torch() is None
