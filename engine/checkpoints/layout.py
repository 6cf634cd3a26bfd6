"""A bare state dict whose heads a TOML file describes: how many there are, and the names of the projections.

The file has one table, or several under ``[[attention]]`` for a model of several stacks::

    heads = 12
    query = "blocks.{layer}.attn.wq.weight"
    key = "blocks.{layer}.attn.wk.weight"
    value = "blocks.{layer}.attn.wv.weight"
    output = "blocks.{layer}.attn.wo.weight"

``key_value_heads`` is inferred from the shapes by default. If query, key and value are one tensor, ``fused`` says how
its rows belong to the heads: ``blocks``, ``grouped`` or ``quarters``. ``stored = "in_out"`` is for transposed matrices,
``stack`` names the stack (``decoder`` by default), and a table ``bias`` names the biases.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from engine.architectures.outline import AttentionModule, anatomy_of, lay_out_heads, note_lost_files
from engine.architectures.rules import Layout, Rule
from engine.architectures.tensors import UNKNOWN
from engine.checkpoints.source import Source
from engine.checkpoints.tensor_reader import Checkpoint
from engine.values.errors import EngineError
from engine.values.heads import STACKS, Head

MATRICES = {"query": "Q", "key": "K", "value": "V", "output": "O"}
"""The matrix of each projection that the file names."""

FUSED = {"blocks": Layout.BLOCKS, "grouped": Layout.GROUPED, "quarters": Layout.QUARTERS}
"""Ways in which one tensor holds queries, keys and values."""

PLACE = "{layer}"
"""Stands for a layer's number in a name."""


class StackDescription(NamedTuple):
    """One stack's attention; the rule has `PLACE` in its names, and ``key_value_heads`` is None if the shapes tell."""

    stack: str
    rule: Rule
    heads: int
    key_value_heads: int | None


def read_layout(file: Path) -> tuple[StackDescription, ...]:
    """Read a description of a state dict; `EngineError` when the file cannot be read, or what to correct in it."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise EngineError(f"{file} cannot be read: {error.strerror}; --layout takes a TOML file") from error
    except ValueError as error:
        raise EngineError(f"{file} cannot be read as TOML ({error}); docs/models.md shows what it holds") from error
    several = content.get("attention")
    tables = several if isinstance(several, list) else [content]
    return tuple(_read_table(file, table) for table in tables)


def _read_table(file: Path, table: Mapping[str, Any]) -> StackDescription:
    known = {*MATRICES, "heads", "key_value_heads", "fused", "stored", "stack", "bias"}
    if unknown := sorted(table.keys() - known):
        raise EngineError(f"{file}: '{unknown[0]}' is not known; it may hold {', '.join(sorted(known))}")
    for name in MATRICES:
        if not isinstance(table.get(name), str) or PLACE not in table[name]:
            raise EngineError(
                f'{file}: give {name} = "…{PLACE}…", the name of its tensor with {PLACE} for the layer number'
            )
    for name in ("heads", "key_value_heads"):
        if name in table and not (type(table[name]) is int and table[name] > 0):
            raise EngineError(f"{file}: {name} must be a whole number above zero")
    if "heads" not in table:
        raise EngineError(f"{file}: give heads, the number of query heads of a layer")
    biases = table.get("bias", {})
    if not isinstance(biases, dict) or biases.keys() - MATRICES or not all(isinstance(x, str) for x in biases.values()):
        raise EngineError(f"{file}: bias must be a table of names for {', '.join(MATRICES)}")
    for name, choices in (("fused", FUSED), ("stored", ("out_in", "in_out")), ("stack", STACKS)):
        if name in table and table[name] not in choices:
            raise EngineError(f"{file}: {name} must be one of {', '.join(choices)}")
    is_fused = table["query"] == table["key"] == table["value"]
    if is_fused != ("fused" in table):
        raise EngineError(f"{file}: fused needs one tensor for query, key and value")
    layout = FUSED[table["fused"]] if is_fused else Layout.SEPARATE
    is_transposed = table.get("stored") == "in_out"
    biases = {MATRICES[name]: pattern for name, pattern in biases.items()}
    rule = Rule(table["query"], table["key"], table["value"], table["output"], layout, is_transposed, biases=biases)
    return StackDescription(table.get("stack", "decoder"), rule, table["heads"], table.get("key_value_heads"))


class LayoutSource(Source):
    """A weight file, or a folder of them, that a layout file describes."""

    def __init__(self, name: str, place: Path, file: Path) -> None:
        self._description = file
        descriptions = read_layout(file)
        self.tensors = self._checkpoint = Checkpoint(place)
        self.opened, self.descriptions = self._checkpoint.opened, (file,)
        modules: dict[Head, AttentionModule] = {}
        for each in descriptions:
            layers = self._layers(each)
            if twice := modules.keys() & layers.keys():
                raise EngineError(f"{file}: two tables describe the stack {min(twice).stack}; give each its own")
            modules |= layers
        anatomy = anatomy_of(name, str(place), "state dict", modules, self.tensors.entries, None, ())
        self.anatomy = note_lost_files(anatomy, self._checkpoint.lost, is_read=False)

    def _layers(self, described: StackDescription) -> dict[Head, AttentionModule]:
        query, entries = described.rule.query, self._checkpoint.entries
        pattern = re.escape(query).replace(re.escape(PLACE), r"(\d+)", 1).replace(re.escape(PLACE), r"\1")
        numbers = sorted(int(found[1]) for name in entries if (found := re.fullmatch(pattern, name)))
        if not numbers:
            close = next(iter(sorted(entries)), "nothing")
            raise EngineError(f"{self._description}: no tensor is called {query}; there is, for one, {close}")
        return {Head(described.stack, number): self._layer(described, number) for number in numbers}

    def _layer(self, described: StackDescription, number: int) -> AttentionModule:
        file, entries, lost = self._description, self._checkpoint.entries, self._checkpoint.lost
        names, biases = (
            {matrix: pattern.replace(PLACE, str(number)) for matrix, pattern in patterns.items()}
            for patterns in (described.rule.projections, described.rule.biases)
        )
        for name in (*names.values(), *biases.values()):
            if name not in entries:
                raise EngineError(f"{file}: there is no tensor {name}")
            if name in lost and entries[name] == UNKNOWN:
                raise EngineError(lost[name])  # no other layer tells its shape
        shapes = {matrix: entries[name].shape for matrix, name in names.items()}
        for matrix, shape in shapes.items():
            if len(shape) != 2:
                raise EngineError(f"{names[matrix]} has shape {list(shape)}, not that of a matrix")
        if described.rule.stored_transposed:
            shapes = {matrix: shape[::-1] for matrix, shape in shapes.items()}
        module, stack, rule = f"layer {number} of {file.name}", described.stack, described.rule
        outline, is_gated = lay_out_heads(Head(stack, number), module, rule, shapes, described.heads)
        if outline.d_source != outline.d_model and stack != "cross":
            raise EngineError(
                f"{file}: queries would read {outline.d_model} numbers and keys {outline.d_source}; "
                "check stored, which says whether matrices are out_in or in_out"
            )
        if described.key_value_heads not in (None, outline.key_value_heads):
            asked, found = described.key_value_heads, outline.key_value_heads
            raise EngineError(f"{file}: {asked} key/value heads do not fit; the shapes say {found}")
        for matrix, name in biases.items():
            if entries[name].shape != (shapes[matrix][0],):
                raise EngineError(f"{name} has shape {list(entries[name].shape)}, not {[shapes[matrix][0]]}")
        return AttentionModule(replace(outline, module=names["Q"]), rule, names, biases, {}, None, names["K"], is_gated)
