"""Imports go down."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_no_modules_of_the_explorer_import_each_other_in_a_circle() -> None:
    """Imports that are made late, or for types alone, count."""
    graph = grimp.build_graph("tui")
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imported).prepare()  # raises where there is a circle, and names it
