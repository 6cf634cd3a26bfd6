"""Views are computed in small groups of rows, and only as far as a query asks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from engine.analysis import attention, tables
from engine.analysis.open_model import OpenModel
from engine.mathematics.chance import chance_of, chance_of_factor, chance_of_product
from engine.values.heads import MATRICES, Head
from engine.values.table import RowGroup, Table
from engine.values.views import CIRCUITS, Query
from tests.cli.test_weight_tables import of_head
from tests.conftest import CallsOf, TinyModel
from tests.engine.mathematics.test_circuits import by_definition
from tests.exporting import exported
from tests.opening import open_on_thread, outline, start_engine, worked_out

TEXT = "The cat sat on the mat."
LAYER = Head("decoder", 0)


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
@pytest.mark.parametrize("head", ["2", "all"])
def test_folded_circuits_are_those_of_scaled_weights_and_a_centred_unembedding(
    tiny_copy: TinyModel, model_type: str, head: str
) -> None:
    folder = tiny_copy(model_type, with_head=True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    base = model.base_model
    blocks, norms = (base.h, "ln_1") if model_type == "gpt2" else (base.layers, "input_layernorm")
    final = base.ln_f if model_type == "gpt2" else base.norm
    with torch.no_grad():
        for number, norm in enumerate((getattr(blocks[1], norms), final)):
            norm.weight.copy_(1 + torch.rand(32, generator=torch.Generator().manual_seed(number)))
    model.save_pretrained(folder)
    before, after = (norm.weight.detach().double() for norm in (getattr(blocks[1], norms), final))
    embedding, unembedding = (
        module.weight.detach().double() for module in (model.get_input_embeddings(), model.get_output_embeddings())
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
    assert {name for name in CIRCUITS.columns if name.endswith("_chance") and row[name] != unfolded[name]} == set()


def test_chance_is_the_same_at_every_run() -> None:
    layer, found = outline("small").layers[0], []
    for _ in range(2):
        chance_of_factor.cache_clear()
        chance_of_product.cache_clear()
        found.append(chance_of(layer, False))
    for matrix in MATRICES:
        np.testing.assert_array_equal(found[0][matrix], found[1][matrix])
    for factor in "QKVO":
        np.testing.assert_allclose(np.sqrt((found[0][factor] ** 2).sum(-1)), 1.0, rtol=1e-12)


def test_rows_of_maps_come_some_queries_at_a_time(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_on_thread(tiny_model("gpt2"))
    whole = worked_out(model, "attention", Query(text=TEXT))
    monkeypatch.setattr(attention, "ROWS_AT_ONCE", 60)
    units = tables.row_groups(model, "attention", Query(text=TEXT))
    groups = [unit.rows for unit in units if isinstance(unit, RowGroup) and unit.rows]
    assert max(map(len, groups)) <= 60
    of_groups = Table.of_rows(whole.name, whole.columns, (row for group in groups for row in group))
    assert of_groups.rows == whole.rows


def test_a_layer_is_computed_when_its_rows_are_asked_for(tiny_model: TinyModel, calls_of: CallsOf) -> None:
    read = calls_of(OpenModel, "layer_weights")
    engine = start_engine(tiny_model("gpt2"))
    groups = (group for group in engine.rows("circuits", Query()) if group.rows)
    first = next(groups)
    assert {row[1] for row in first.rows} == {0}
    assert {layer for _, layer in read} == {LAYER}
    second = next(groups)
    assert {row[1] for row in second.rows} == {1}
    assert next(groups, None) is None
    assert [*first.rows, *second.rows] == list(engine.table("circuits", Query()).result().rows)


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
        units = list(tables.row_groups(model, name, Query(norms=True)))
        (rows,) = [unit.rows for unit in units if isinstance(unit, RowGroup) and unit.rows]
        whole = worked_out(model, name, Query(norms=True))
        assert Table.of_rows(name, whole.columns, rows).rows == whole.rows
        assert len({row[:3] for row in rows}) == len(rows)
