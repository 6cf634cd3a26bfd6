"""Tables read back exactly from every format, and a file is complete or absent."""

from __future__ import annotations

import csv
import gzip
import json
import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from engine.service.engine import Engine
from engine.store.export import FORMATS, write_table
from engine.values.options import EngineOptions
from engine.values.outline import ModelOutline
from engine.values.table import ATTENTION_COLUMNS, Cell, LargeTable, Table
from engine.values.views import NEEDS, VIEWS
from tests.exporting import refusal, rows_in, run, written
from tui.export.request import Export, Request

TEXT = "Anna has a red ball"
TEXTS = ["a,b", 'say "hi"', "line\nbreak", "日本語 😀", "[bold]", " lead", "", "=1+1", "\x1b[31m", "\\x1b[31m", "NaN"]
NUMBERS = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2.0**53 + 2, 3.0, math.nan, math.inf, -math.inf]
WHOLE = {"layer", "rows", "cols", "energy_rank", "numerical_rank", "index", "query", "key", "parameters", "bytes"}
WORDS = {"stack", "head", "matrix", "query_token", "key_token", "name", "shape", "dtype", "tied_to", "note"}


def same(found: object, cell: Cell) -> bool:
    """Return whether two values are the same number to the last bit, or the same text."""
    if isinstance(found, float) and isinstance(cell, float):
        return struct.pack("d", found) == struct.pack("d", cell)
    return type(found) is type(cell) and found == cell


def objects(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines, refusing ``NaN`` and ``Infinity``, which are no JSON."""
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Engine, ModelOutline]]:
    engine = Engine(EngineOptions(use_cache=False))
    yield engine, engine.open("demo", lambda progress: None).result()
    engine.stop()


def table_of(opened: tuple[Engine, ModelOutline], view: str) -> Table:
    """Compute a table, of layer 1 if it is one of layers."""
    options: dict[str, object] = {"norms": True} if view == "weights" else {}
    if view not in ("predictions", "lens", "contributions", "rollout"):
        options["layer"] = "1"
    if "text" in NEEDS.get(view, ()):
        options["text"] = TEXT
    pieces = list(Export(*opened, Request(view, options, columns="all"), lambda progress: None).pieces())
    return pieces[0].with_frame(polars.concat([piece.frame for piece in pieces]))


@pytest.mark.parametrize("view", ["ranks", "spectrum", "attention", *sorted(VIEWS.keys() - {"changes"})])
def test_every_table_reads_back_exactly_from_every_format(
    opened: tuple[Engine, ModelOutline], view: str, tmp_path: Path
) -> None:
    table = table_of(opened, view)
    rows = list(table)
    assert rows
    files = {name: write_table(table, tmp_path / f"table.{name}", name) for name in FORMATS}
    with files["csv"].open(encoding="utf-8", newline="") as stream:
        header, *lines = csv.reader(stream)
    assert tuple(header) == table.columns
    for line, row in zip(lines, rows, strict=True):
        for text, cell in zip(line, row, strict=True):
            assert same(float(text), cell) if isinstance(cell, float) else text == ("" if cell is None else str(cell))
    packed = polars.read_parquet(files["parquet"])
    for found in (objects(files["jsonl"]), packed.to_dicts()):
        for values, row in zip(found, rows, strict=True):
            assert tuple(values) == table.columns
            for (name, value), cell in zip(values.items(), row, strict=True):
                assert same(value, cell), (name, value, cell)
    if view in ("ranks", "spectrum", "attention", "weights"):
        types = {name: "Int64" if name in WHOLE else "String" if name in WORDS else "Float64" for name in table.columns}
        assert {name: str(kind) for name, kind in packed.schema.items()} == types


def test_texts_and_numbers_that_are_hard_to_write_read_back(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2**63, 2000, dtype=np.int64).view(np.float64)
    pairs = [*((text, number) for text in TEXTS for number in NUMBERS), *(("x", number) for number in bits.tolist())]
    rows = [("decoder", "1", "mean", 0, 2**62 + 1, text, "x", number, 0.5) for text, number in pairs]
    table = Table.of_rows("attention", ATTENTION_COLUMNS, rows)
    files = {name: write_table(table, tmp_path / f"a.{name}", name) for name in FORMATS}
    found = {
        "csv": [row | {each: int(row[each]) for each in ("layer", "key")} for row in written(tmp_path, "a.csv")],
        "parquet": polars.read_parquet(files["parquet"]).to_dicts(),
        "jsonl": objects(files["jsonl"]),
    }
    for name, read in found.items():
        for row, (text, number) in zip(read, pairs, strict=True):
            assert (row["query_token"], row["layer"], row["key"]) == (text, 1, 2**62 + 1)
            weight = row["weight"] if name != "csv" else float(row["weight"]) if row["weight"] else None
            is_kept = math.isfinite(number) or (math.isinf(number) and name != "jsonl")
            assert same(weight, number if is_kept else None), (name, number)


def test_a_mean_over_layers_makes_a_column_of_text_and_an_empty_table_keeps_its_types(tmp_path: Path) -> None:
    rows = [("decoder", "mean", "0", 0, 0, "a", "a", 1.0, "")]
    tables = [Table.of_rows("attention", ATTENTION_COLUMNS, each) for each in (rows, ())]
    mean, none = (polars.read_parquet(write_table(each, tmp_path / "a.parquet", "parquet")) for each in tables)
    assert mean["layer"].to_list() == ["mean"]
    assert mean.schema["weight_chance"] == polars.Float64
    assert len(none) == 0
    assert [str(none.schema[name]) for name in ("layer", "weight")] == ["Int64", "Float64"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_large_table_is_read_in_pieces_while_it_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.values.table.PIECE", 100)
    given = 0

    def rows() -> Iterator[Sequence[Cell]]:
        nonlocal given
        for given in range(250):
            yield "decoder", 0, "0", "Q", given, given / 7, None, 0.0

    columns = ("stack", "layer", "head", "matrix", "index", "singular_value", "energy", "cumulative_energy")
    pieces = LargeTable("spectrum", columns, rows()).pieces()
    next(pieces)
    assert given == 99
    path = write_table(LargeTable("spectrum", columns, rows()), tmp_path / name, name.split(".")[1])
    read = {"a.csv": polars.scan_csv, "a.jsonl": polars.scan_ndjson, "a.parquet": polars.scan_parquet}
    frame = read[name](path).collect()  # type: ignore[operator]
    assert frame["singular_value"].to_list() == [number / 7 for number in range(250)]


def test_the_ending_or_the_option_names_the_format_and_the_rows_are_the_same(tmp_path: Path) -> None:
    options = ("demo", "ranks", "--head", "L1H0")
    text = run(*options).stdout
    for file, more in (("a.csv", ()), ("b.csv.gz", ()), ("c.txt", ()), ("d.parquet", ("--format", "csv"))):
        assert run(*options, *more, "-o", tmp_path / file).exit_code == 0
        data = (tmp_path / file).read_bytes()
        assert (gzip.decompress(data) if file.endswith(".gz") else data).decode() == text
    (tmp_path / "e.jsonl").write_text(run(*options, "--format", "jsonl").stdout)
    run(*options, "-o", tmp_path / "f.ndjson")
    assert (tmp_path / "e.jsonl").read_bytes() == (tmp_path / "f.ndjson").read_bytes()
    rows = [{name: str(value) for name, value in each.items()} for each in objects(tmp_path / "e.jsonl")]
    assert rows == rows_in(text)
    packed = tmp_path / "g.parquet"
    assert run(*options, "--energy", "0.1", "--where", "matrix = QK", "-o", packed).exit_code == 0
    facts = polars.read_parquet_metadata(packed)
    assert (facts["model"], facts["view"]) == ("demo", "ranks")
    assert json.loads(facts["options"]) == {"head": "L1H0", "energy": 0.1, "where": "matrix = QK"}


def test_a_filter_that_matches_no_row_is_reported_beside_the_table(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    for view, condition, output in (("heads", "label = indction", ()), ("ranks", "matrix = XY", ("-o", file))):
        result = run("demo", view, "--where", condition, *output)
        assert result.exit_code == 0
        assert result.stderr.startswith(f"attn-tui: no row matches {condition}\n")
        assert len((file.read_text() if output else result.stdout).splitlines()) == 1
    assert "no row" not in run("demo", "ranks", "--where", "matrix = QK").stderr


def test_impossible_formats_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    assert "-o FILE.parquet" in refusal("demo", "ranks", "--format", "parquet", code=2)
    assert "a table, not arrays; give -o" in refusal("demo", "ranks", "--format", "npz", "-o", file, code=2)
    assert "give -o maps.npz" in refusal("demo", "attention", "--text", "a", "--format", "npz", code=2)
    refused = refusal("demo", "matrices", "--format", "jsonl", "-o", file, code=2)
    assert "matrices are written as NPZ, not jsonl; give -o FILE.npz" in refused
    assert "call the file a.parquet" in refusal("nowhere", "ranks", "-o", tmp_path / "a.parquet.gz")
    assert list(tmp_path.glob("*.*")) == []
