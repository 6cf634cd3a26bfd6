"""The table of parameters and the filter line, on the screen, in files and as values: one table everywhere."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from textual.widget import Widget

import engine
from engine.analysis.open_model import OpenModel
from engine.analysis.tables import growing
from engine.architectures import tensors
from engine.checkpoints.source import FolderSource
from engine.service.engine import Engine
from engine.values.options import EngineOptions
from engine.values.table import Table
from engine.values.views import WEIGHTS, Query
from tests.conftest import TinyModel
from tests.opening import open_folder, worked_out
from tests.tui.explorer import explorer, screen_text, settle, shown, titled
from tui.app import Explorer
from tui.cli.headless import run_export
from tui.export.request import Request
from tui.panes.table import TablePane

NORMS = Query(norms=True)


def named(table: Table) -> dict[str, dict[str, Any]]:
    """Name the rows by their parameters, and the cells by their columns."""
    return {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table}


def opened(folder: Path) -> OpenModel:
    return OpenModel(open_folder(folder)[0], EngineOptions(use_cache=False))


@pytest.mark.parametrize(("model_type", "dtype"), [("gpt2", torch.bfloat16), ("t5", torch.float32)])
def test_norms_are_those_of_transformers_own_tensors_however_small_the_parts(
    tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch, model_type: str, dtype: torch.dtype
) -> None:
    folder = tiny_copy(model_type, with_head=True)
    stored = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    monkeypatch.setattr(tensors, "PART", 1000)
    found = named(worked_out(opened(folder), "weights", NORMS))
    kind = transformers.GPT2LMHeadModel if model_type == "gpt2" else transformers.T5ForConditionalGeneration
    model = kind.from_pretrained(folder, dtype=dtype)
    own = dict(model.named_parameters(remove_duplicate=False))
    assert found.keys() == own.keys()
    for name, row in found.items():
        assert row["norm"] == pytest.approx(own[name].detach().double().norm().item(), rel=1e-12)
        assert row["bytes"] == (0 if row["tied_to"] else own[name].nbytes)
        assert row["note"] is None
    assert sum(row["bytes"] for row in found.values()) == sum(tensor.nbytes for tensor in stored.values())


def test_no_part_of_a_tensor_is_larger_than_asked(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_folder(tiny_model("llama"))[0]
    monkeypatch.setattr(tensors, "PART", 100)
    name = next(iter(source.anatomy.modules.values())).weights["Q"]
    parts = list(source.parts(name))
    assert {len(part) for part in parts[:-1]} == {100}
    assert torch.equal(torch.cat(parts), source.tensors.read(name).flatten())


def test_what_is_stored_twice_is_said_and_so_is_what_has_no_norm(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2", with_head=True)
    file, head = folder / "model.safetensors", "lm_head.weight"
    stored = load_file(file)
    embedding = stored["transformer.wte.weight"]
    buffer = {"transformer.h.0.attn.steps": torch.arange(4)}
    notes = {}
    for case, unembedding in (("same", embedding.clone()), ("other", embedding + 1)):
        save_file({**stored, **buffer, head: unembedding}, file, metadata={"format": "pt"})
        rows = named(worked_out(opened(folder), "weights", NORMS))
        notes[case] = rows[head]["note"]
        assert rows[head]["tied_to"] == "transformer.wte.weight"
        assert rows[head]["bytes"] == embedding.nbytes
        assert rows[head]["norm"] == pytest.approx(unembedding.double().norm().item(), rel=1e-12)
        steps = rows["transformer.h.0.attn.steps"]
        assert (steps["norm"], steps["note"]) == (None, "int64 numbers, which are no weights")
    assert notes == {
        "same": "stored a second time",
        "other": "stored by itself, and other than transformer.wte.weight",
    }


def test_equal_matrices_that_are_not_tied_are_noticed(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama", with_head=True, tie_word_embeddings=False)
    stored = load_file(folder / "model.safetensors")
    stored["lm_head.weight"] = stored["model.embed_tokens.weight"].clone()
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    notes = {name: row["note"] for name, row in named(worked_out(opened(folder), "weights", NORMS)).items()}
    assert {name: note for name, note in notes.items() if note} == {
        "model.embed_tokens.weight": "the same numbers as lm_head.weight, not tied"
    }


def test_the_list_is_there_before_anything_is_read_and_no_tensor_is_read_twice(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    parts = FolderSource.parts

    def counting(source: FolderSource, name: str) -> Iterator[torch.Tensor]:
        read.append(name)
        yield from parts(source, name)

    monkeypatch.setattr(FolderSource, "parts", counting)
    monkeypatch.setattr("engine.analysis.tables.PAUSE", 0.0)
    monkeypatch.setattr("engine.analysis.tables.SHARE", 0)
    folder = tiny_model("gpt2", with_head=True)
    ours = opened(folder)
    states = (each for each in growing(ours, "weights", NORMS) if isinstance(each, tuple))
    first, _ = next(states)
    assert {name: row["norm"] for name, row in named(first).items()} == dict.fromkeys(
        load_file(folder / "model.safetensors")
    )
    for _ in range(5):
        next(states)
    del states
    assert 0 < len(read) < len(named(first))
    whole = worked_out(ours, "weights", NORMS)
    assert sorted(read) == sorted(load_file(folder / "model.safetensors"))
    assert all(row["norm"] != "" for row in named(whole).values())


def test_a_live_module_has_the_table_of_its_numbers_as_they_are_now(tiny_model: TinyModel) -> None:
    model = transformers.GPT2LMHeadModel.from_pretrained(tiny_model("gpt2", with_head=True))
    opened = engine.open_module(model)
    before = {row["name"]: row for row in opened.table("weights", NORMS).to_dicts()}
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(2)
    after = {row["name"]: row for row in opened.table("weights", NORMS).to_dicts()}
    name = "transformer.ln_f.weight"
    assert after[name]["norm"] == pytest.approx(2 * before[name]["norm"], rel=1e-12)
    assert after["lm_head.weight"]["tied_to"] == "transformer.wte.weight"
    assert {each: row for each, row in after.items() if each != name} == {
        each: row for each, row in before.items() if each != name
    }


def pane(app: Explorer) -> TablePane:
    active = app.views.active
    assert isinstance(active, TablePane)
    return active


def focus(app: Explorer) -> Widget | None:
    return app.focused


def csv_rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def exported(folder: Path, view: str, where: str, file: Path, **asked: Any) -> list[dict[str, str]]:
    """Export rows in this process."""
    request = Request(view, None, None, None, None, None, None, where or None, file, asked)
    run_export(str(folder), request, EngineOptions(use_cache=False))
    return csv_rows(file)


def test_norms_are_filtered_by_only_where_they_are_read(tiny_model: TinyModel, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="only with --norms"):
        exported(tiny_model("gpt2"), "weights", "norm > 1", tmp_path / "weights.csv")
    assert not list(tmp_path.glob("*.csv"))


@pytest.mark.parametrize("view", ["ranks", "spectrum"])
def test_where_leaves_the_rows_of_which_it_is_true(tiny_model: TinyModel, tmp_path: Path, view: str) -> None:
    folder, column = tiny_model("llama"), "stable_rank" if view == "ranks" else "energy"
    every = exported(folder, view, "", tmp_path / "every.csv")
    middle = sorted(float(row[column]) for row in every)[len(every) // 2]
    some = exported(folder, view, f"{column} > {middle!r} and not head = all", tmp_path / "some.csv")
    assert some == [row for row in every if float(row[column]) > middle and row["head"] != "all"]
    assert 0 < len(some) < len(every)


async def test_the_weights_on_screen_are_those_of_the_export_and_are_filtered_as_they_are_typed(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tiny_model("gpt2", with_head=True)
    async with explorer(folder, head="L1H2", engine=Engine(EngineOptions(use_cache=False))) as (app, pilot):
        await pilot.press("0")
        await settle(pilot)
        table = exported(folder, "weights", "", tmp_path / "all.csv", norms=True)
        assert [["" if cell is None else str(cell) for cell in row] for row in pane(app).table_on_screen()] == [
            list(row.values()) for row in table
        ]
        assert tuple(table[0]) == WEIGHTS.columns
        await pilot.press("slash", *"c_att", "j")
        await pilot.pause()
        assert titled(pane(app).title_line) == f"weights 0 of {len(table)}  c_attj"
        await pilot.press("backspace", *" an")
        await pilot.pause()
        assert shown(pane(app).explanation_line) == "no column or number 'c_att' at 1"
        assert titled(pane(app).title_line) == "weights", "no filter holds that was never finished"
        await pilot.press(*"d par", "tab", *" > 1000", "enter", "end", "o", "e", "v")
        await settle(pilot)
        assert focus(app) is pane(app).grid
    (file,) = tmp_path.glob("*-weights.csv")
    kept = exported(folder, "weights", "c_att and parameters > 1000", tmp_path / "kept.csv", norms=True)
    assert sorted(map(str, csv_rows(file))) == sorted(map(str, kept))
    assert [row["name"] for row in kept] == [f"transformer.h.{layer}.attn.c_attn.weight" for layer in range(2)]


async def test_the_filter_line_says_what_is_wrong_goes_to_columns_and_is_cleared(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1") as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        count = len(list(pane(app).shown or ()))
        await pilot.press("slash", *"head = al", "enter", "slash", "end", *"l", "enter", "t")
        await pilot.pause()
        assert titled(pane(app).title_line) == f"circuits L1  1 of {count}  head = all"
        await pilot.press("4", "slash", *"ov_over", "tab")
        await pilot.pause()
        assert shown(pane(app).explanation_line).startswith("Enter goes to ov_overlap: mean squared cosine")
        await pilot.press("enter")
        await pilot.pause()
        assert (pane(app).grid.column, pane(app).filter_input.display) == ("ov_overlap", False)
        assert titled(pane(app).title_line) == f"circuits L1  1 of {count}  head = all"
        await pilot.press("slash", *"qk_symetry < 1", "enter")
        await pilot.pause()
        assert focus(app) is pane(app).filter_input, "what cannot be read is there to be mended"
        assert "did you mean qk_symmetry?" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert focus(app) is pane(app).grid
        assert titled(pane(app).title_line) == "circuits L1"
        assert screen_text(app).rstrip().endswith("? Keys q Quit"), "what there is no room for is left out before"
        assert len(pane(app).grid.order) == count
        await pilot.press("slash", "enter")
        await pilot.pause()
        assert (focus(app), pane(app).filter_input.display) == (pane(app).grid, False)
        await pilot.press("slash", *"zzz", "enter")
        await pilot.pause()
        assert pane(app).grid.why_none == "no row fits; / changes the filter, esc shows all rows"
        assert " ".join(screen_text(app).split()).count("no row fits; / changes the filter, esc shows all rows") == 1
        table = pane(app).shown
        assert table is not None
        for so_far in (" so far", ""):  # whether it is still being worked out
            pane(app).show("L1", table.with_frame(table.frame), None, is_growing=bool(so_far))
            await pilot.pause()
            assert titled(pane(app).title_line) == f"circuits L1  0 of {count}{so_far}  zzz"
            assert f"no row fits{so_far}; /" in screen_text(app)


async def test_completing_backwards_begins_with_the_last_column(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await pilot.press("4", "slash", *"ov_over")
        pane = app.views.active
        assert isinstance(pane, TablePane)
        await pilot.press("tab")
        first = pane.filter_input.value
        await pilot.press("tab", "shift+tab")
        assert pane.filter_input.value == first != "ov_over"
