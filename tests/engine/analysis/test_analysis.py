"""Views are computed in small groups of rows, and only as far as a query asks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from engine.analysis import tables
from engine.analysis.open_model import OpenModel
from engine.values.heads import Head
from engine.values.table import RowGroup, Table
from engine.values.views import CIRCUITS, Query
from tests.cli.test_weight_tables import of_head
from tests.conftest import TinyModel
from tests.engine.mathematics.test_circuits import by_definition
from tests.exporting import exported
from tests.opening import open_on_thread, worked_out

TEXT = "The cat sat on the mat."


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
@pytest.mark.parametrize("head", ["2", "all"])
def test_folded_circuits_are_those_of_scaled_weights_and_a_centred_unembedding(
    tiny_model: TinyModel, model_type: str, head: str
) -> None:
    folder = tiny_model(model_type, with_head=True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    base = model.base_model
    norms = (base.h[1].ln_1, base.ln_f) if model_type == "gpt2" else (base.layers[1].input_layernorm, base.norm)
    before, after, embedding, unembedding = (
        each.weight.detach().double() for each in (*norms, model.get_input_embeddings(), model.get_output_embeddings())
    )
    plain = of_head(model, 1, head)
    folded = {name: plain[name].double() * before for name in "QKV"} | {"O": plain["O"].double()}
    folded |= {"QK": before[:, None] * plain["QK"] * before, "OV": before[:, None] * plain["OV"]}
    centred = (unembedding - unembedding.mean(0)) * after
    expected = by_definition(folded, centred.T @ embedding)
    (row,) = exported(folder, "circuits", "--head", head, "--layer", "1", "--fold-norm")
    for name, value in expected.items():
        if name.endswith(("lost", "in_kernel")):
            assert row[name] == str(value), name
        else:
            assert float(row[name]) == pytest.approx(value, rel=1e-4, abs=2e-5 if "angle" in name else 1e-6), name
    for matrix in ("Q", "K", "V", "O", "QK", "OV"):
        sigma = torch.linalg.svdvals(folded[matrix])
        assert row[f"rank_{matrix.lower()}"] == str(int((sigma > 1.2e-7 * sigma[0]).sum()))
    (unfolded,) = exported(folder, "circuits", "--head", head, "--layer", "1")
    assert all(row[name] == unfolded[name] for name in CIRCUITS.columns if name.endswith("_chance"))


def groups_of(model: OpenModel, name: str, query: Query) -> list[Any]:
    """Give the rows of a table group by group."""
    return [each.rows for each in tables.row_groups(model, name, query) if isinstance(each, RowGroup) and each.rows]


def test_a_query_names_layers_heads_and_whole_layers(tiny_model: TinyModel) -> None:
    model = open_on_thread(tiny_model("gpt2"))
    one, both = Query(layers=(Head("decoder", 1),)), Query(whole_layers=True)
    assert {row[1] for row in worked_out(model, "ranks", one).rows} == {1}
    labels = [row[2] for row in worked_out(model, "circuits", both).rows]
    assert labels == [*"0123", "all"] * 2
    assert {row[2] for row in worked_out(model, "spectrum", Query(head=-1)).rows} == {"all"}


def test_rows_of_a_growing_table_come_once_in_the_end(tiny_model: TinyModel) -> None:
    model = open_on_thread(tiny_model("gpt2", with_head=True))
    for name in ("heads", "weights"):
        (rows,) = groups_of(model, name, Query(norms=True))
        whole = worked_out(model, name, Query(norms=True))
        assert Table.of_rows(name, whole.columns, rows).rows == whole.rows
        assert len({row[:3] for row in rows}) == len(rows)
