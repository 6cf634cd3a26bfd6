"""The table of heads: its numbers are those of the views that it joins."""

from __future__ import annotations

import pytest

from engine.analysis.tables import table_states
from engine.values.table import RANK_COLUMNS, Cell, Table
from engine.values.views import HEAD_PARTS, HEADS, Query, explain
from tests.conftest import TinyModel
from tests.opening import open_on_thread, refused, worked_out

TEXT = "the cat sat on the mat and the cat sat"


def by_head(table: Table) -> dict[tuple[Cell, ...], dict[str, Cell]]:
    rows = table.frame.to_dicts()
    return {(row["stack"], row["layer"], row["head"]): row for row in rows if row["head"] != "all"}


@pytest.mark.parametrize("model_type", ["llama", "t5"])
@pytest.mark.parametrize("text", [None, TEXT])
def test_its_numbers_are_those_of_three_views(tiny_model: TinyModel, model_type: str, text: str | None) -> None:
    model = tiny_model(model_type, with_head=True)
    heads = by_head(worked_out(open_on_thread(model), "heads", Query(text=text, epsilon=0.05)))
    others = open_on_thread(model)
    for name, query in (("patterns", Query(text=text)), ("circuits", Query())):
        expected = by_head(worked_out(others, name, query))
        assert heads.keys() == expected.keys()
        for place, row in expected.items():
            assert {column: heads[place][column] for column in row} == row
    ranks = worked_out(others, "ranks", Query(epsilon=0.05)).frame.to_dicts()
    measures = [f"{measure}{chance}" for measure in RANK_COLUMNS[6:] for chance in ("", "_chance")]
    assert len(ranks) * len(measures) == len(heads) * len(HEAD_PARTS["ranks"])
    for row in ranks:
        head = heads[row["stack"], row["layer"], row["head"]]
        assert [head[f"{str(row['matrix']).lower()}_{name}"] for name in measures] == [row[name] for name in measures]


def test_cheap_columns_come_first(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.analysis.tables.PAUSE", -1.0)
    monkeypatch.setattr("engine.analysis.tables.SHARE", 0)
    units = table_states(open_on_thread(tiny_model("llama")), "heads", Query())
    states = [by_head(unit[0]).values() for unit in units if isinstance(unit, tuple)]
    ranks, patterns, circuits = "q_energy_rank", "induction", "qk_symmetry"
    filled = [
        tuple(each for each in (ranks, patterns, circuits) if all(row[each] is not None for row in state))
        for state in states
    ]
    assert list(dict.fromkeys(filled)) == [(), (ranks,), (ranks, patterns), (ranks, patterns, circuits)]


def test_a_part_that_fails_leaves_its_cells_empty(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    model = open_on_thread(folder)
    rows = by_head(worked_out(model, "heads")).values()
    assert all(row["ov_energy_rank"] is not None and row["qk_symmetry"] is not None for row in rows)
    assert "tokenizer" in refused(lambda: worked_out(model, "heads", Query(text=TEXT)))


def test_every_column_is_explained() -> None:
    for column in HEADS.columns:
        assert explain(column, "heads") or column in ("stack", "layer", "head"), column
    assert explain("ov_energy_rank", "heads").startswith("energy rank of OV: fewest σ²")
