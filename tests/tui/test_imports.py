"""Imports go down."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter

import grimp


def test_no_modules_of_the_explorer_import_each_other_in_a_circle() -> None:
    """Imports that are made late, or for types alone, count."""
    graph = grimp.build_graph("tui")
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imported).prepare()  # raises where there is a circle, and names it


def test_the_first_frame_waits_for_no_numbers() -> None:
    asked = (
        "import sys; import tui.cli.launch, tui.app.explorer; "
        "print([name for name in ('engine.analysis', 'numpy', 'polars', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
