"""Models with NaN or infinite weights: results that depend on these are left out or refused with a reason."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.views import PATTERNS, Query
from tests.conftest import TinyModel
from tests.exporting import attn_tui, exported, refusal, rows_in
from tests.opening import edited_weights, start_engine
from tests.tui.explorer import explorer, screen_text, settle, shown

TABLES = ("ranks", "spectrum", "circuits", "composition", "directions", "changes")

LAYERS = 3


@pytest.fixture
def sound(tiny_model: TinyModel) -> Path:
    return tiny_model("llama", num_hidden_layers=LAYERS)


def broken(sound: Path, folder: Path, *parts: str, layer: int = 1) -> Path:
    """Copy a model with one NaN in each of these tensors of a layer."""
    shutil.copytree(sound, folder)
    with edited_weights(folder) as tensors:
        for part in parts:
            tensors[f"layers.{layer}.self_attn.{part}.weight"][1, 0] = torch.nan
    return folder


@pytest.mark.parametrize("view", TABLES)
def test_a_table_lacks_the_rows_of_that_layer_alone(view: str, sound: Path, tmp_path: Path) -> None:
    more = ("--top", "2", "--first", "2") if view == "directions" else ("--vs", sound) if view == "changes" else ()
    copy = broken(sound, tmp_path / "broken", "k_proj")
    done = attn_tui("export", copy, view, *more)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "decoder L1 is left out: layers.1.self_attn.k_proj.weight holds 1 NaN or infinite numbers of 512" in line
    expected = [
        row for row in exported(sound, view, *more) if row["layer"] != "1" and row.get("from_layer") != "1"
    ]  # fmt: skip
    assert expected
    assert rows_in(done.stdout) == expected


def test_a_file_of_arrays_lacks_that_layer_alone(sound: Path, tmp_path: Path) -> None:
    done = attn_tui("export", broken(sound, tmp_path / "broken", "o_proj"), "matrices", "-o", tmp_path / "heads.npz")
    assert done.returncode == 0
    assert "decoder L1 is left out: layers.1.self_attn.o_proj.weight" in done.stderr
    with np.load(tmp_path / "heads.npz") as arrays:
        assert {name.partition("H")[0] for name in arrays} == {"L0", "L2"}


@pytest.mark.parametrize("name", [("--layer", "1"), ("--head", "L1H0")])
def test_a_layer_that_is_named_is_refused(name: tuple[str, str], sound: Path, tmp_path: Path) -> None:
    copy = broken(sound, tmp_path / "broken", "v_proj")
    line = refusal(copy, "circuits", *name, "-o", tmp_path / "circuits.csv")
    assert line.count("\n") == 1
    assert "layers.1.self_attn.v_proj.weight holds 1 NaN or infinite numbers" in line
    assert not (tmp_path / "circuits.csv").exists()


def test_composition_of_a_later_layer_says_that_an_earlier_one_is_left_out(sound: Path, tmp_path: Path) -> None:
    done = attn_tui("export", broken(sound, tmp_path / "broken", "o_proj"), "composition", "--head", "L2H1")
    assert "decoder L1 is left out" in done.stderr
    assert {row["from_layer"] for row in rows_in(done.stdout)} == {"0"}


def test_no_file_is_written_if_no_layer_is_sound(sound: Path, tmp_path: Path) -> None:
    copy = sound
    for layer in range(LAYERS):
        copy = broken(copy, tmp_path / f"broken{layer}", "q_proj", layer=layer)
    line = refusal(copy, "ranks", "-o", tmp_path / "ranks.csv")
    assert "nothing can be computed: decoder L0: layers.0.self_attn.q_proj.weight holds 1" in line
    assert "L1, L2" in line
    assert not (tmp_path / "ranks.csv").exists()


def test_at_most_three_tensors_of_a_layer_are_named(sound: Path, tmp_path: Path) -> None:
    two = refusal(broken(sound, tmp_path / "two", "q_proj", "o_proj"), "ranks", "--layer", "1")
    assert "q_proj.weight holds 1 NaN" in two
    assert "o_proj.weight holds 1 NaN" in two
    many = refusal(broken(sound, tmp_path / "many", "q_proj", "k_proj", "v_proj", "o_proj"), "ranks", "--layer", "1")
    assert many.count(" holds 1 NaN") == 3
    assert "and so does one more of its tensors" in many


def test_the_model_with_the_fault_is_named(sound: Path, tmp_path: Path) -> None:
    copy = broken(sound, tmp_path / "other", "k_proj")
    for view in ("changes", "spectrum"):
        done = attn_tui("export", sound, view, "--vs", copy)
        assert done.returncode == 0
        assert f"decoder L1 is left out: in {copy} layers.1.self_attn.k_proj.weight holds 1" in done.stderr
        assert {row["layer"] for row in rows_in(done.stdout)} == {"0", "2"}


def test_the_gain_of_a_folded_norm_counts_too(sound: Path, tmp_path: Path) -> None:
    copy = broken(sound, tmp_path / "broken")
    with edited_weights(copy) as tensors:
        tensors["layers.0.input_layernorm.weight"][3] = torch.inf
    done = attn_tui("export", copy, "directions", "--fold-norm", "--first", "1", "--top", "1")
    assert (
        "decoder L0 is left out: layers.0.input_layernorm.weight holds 1 NaN or infinite numbers of 32" in done.stderr
    )
    assert {row["layer"] for row in rows_in(done.stdout)} == {"1", "2"}


async def test_the_explorer_shows_the_others_and_says_what_is_left_out(sound: Path, tmp_path: Path) -> None:
    copy = broken(sound, tmp_path / "broken", "k_proj")
    async with explorer(copy, size=(110, 30)) as (app, pilot):
        await pilot.press("unbound:app.tree", "home", "2")
        await settle(pilot)
        rows = [line.split() for line in screen_text(app).replace("│", " ").splitlines()]
        assert [row[-6:] for row in rows if row[-7:-6] == ["L1"]] == [["×"] * 6]
        assert [row[-6:].count("×") for row in rows if row[-7:-6] == ["L2"]] == [0]
        await pilot.press("4")
        await settle(pilot)
        assert re.search(r"4 circuits all layers ─+ without L1 \(NaN or infinite\) ", screen_text(app))
        await pilot.press("2", "unbound:app.tree", *":L1H0", "enter")
        await settle(pilot)
        assert shown(app.views.ranks.chance_line).split() == ["chance", *["×"] * 6], "there will be none"


TABLES_OF_TOKENS = ("model.embed_tokens.weight", "lm_head.weight")


def break_table(folder: Path, name: str) -> Path:
    """Put one infinite number into a row of a table of tokens that no test reads."""
    with edited_weights(folder) as tensors:
        tensors[name][-1, 0] = torch.inf
    return folder


@pytest.fixture(params=TABLES_OF_TOKENS)
def with_broken_table(request: pytest.FixtureRequest, tiny_copy: TinyModel) -> tuple[Path, str]:
    """Make a model with an infinite number in its embedding or unembedding, and name that tensor."""
    name = str(request.param)
    return break_table(tiny_copy("llama", with_head=True, tie_word_embeddings=False), name), name


@pytest.mark.parametrize("view", ["circuits", "heads", "changes"])
def test_a_broken_table_of_tokens_empties_only_ov_copying(
    view: str, with_broken_table: tuple[Path, str], tiny_model: TinyModel
) -> None:
    broken_one, name = with_broken_table
    whole = tiny_model("llama", with_head=True, tie_word_embeddings=False)
    more = ("--vs", whole) if view == "changes" else ()
    done = attn_tui("export", broken_one, view, *more)
    assert done.returncode == 0
    rows, expected = rows_in(done.stdout), exported(whole, view, *more)
    emptied = [each for each in expected[0] if each.startswith("ov_copying") and "residual" not in each]
    assert emptied
    assert any(row[each] for row in expected for each in emptied)
    said = f"without {emptied[0]}: {name} holds 1 NaN or infinite numbers of 10240"
    if view == "heads":
        assert {row["note"] for row in rows} == {said}
    else:
        assert done.stderr == f"attn-tui: {said}\n"
    left = {"note", *emptied} | {each for each in rows[0] if view == "heads" and PATTERNS.columns.count(each)}
    for row, own in zip(rows, expected, strict=True):
        assert {row[each] for each in emptied} == {""}
        assert {each: row[each] for each in row if each not in left} == {
            each: own[each] for each in own if each not in left
        }


def test_directions_name_the_tokens_of_the_sound_table(
    with_broken_table: tuple[Path, str], tiny_model: TinyModel
) -> None:
    broken_one, name = with_broken_table
    whole = tiny_model("llama", with_head=True, tie_word_embeddings=False)
    options = ("directions", "--head", "L1H2", "--first", "2", "--top", "1")
    done = attn_tui("export", broken_one, *options)
    what = f"{name} holds 1 NaN or infinite numbers of 10240"
    assert done.stderr == f"attn-tui: without tokens: {what}\n"
    without = {"output"} if name == "lm_head.weight" else {"query", "key", "input"}
    rows, expected = rows_in(done.stdout), exported(whole, *options)
    assert {row["side"]: (row["token"], row["note"]) for row in rows if not row["token_id"]} == dict.fromkeys(
        without, ("", what)
    )
    assert [row for row in rows if row["token_id"]] == [row for row in expected if row["side"] not in without]
    assert {(row["matrix"], row["index"], row["singular_value"]) for row in rows} == {
        (row["matrix"], row["index"], row["singular_value"]) for row in expected
    }


def test_a_score_is_explained_without_tokens(tiny_copy: TinyModel) -> None:
    name = TABLES_OF_TOKENS[0]
    folder = tiny_copy("llama", with_head=True, tie_word_embeddings=False)
    options = ("explain", "--text", "the cat sat", "--head", "L1H2")
    expected = exported(folder, *options)
    tokens = ("query_tokens", "key_tokens", "note")
    for row, own in zip(exported(break_table(folder, name), *options), expected, strict=True):
        assert {each: row[each] for each in row if each not in tokens} == {
            each: own[each] for each in own if each not in tokens
        }
        if own["query_tokens"]:
            assert [row[each] for each in tokens] == ["", "", f"{name} holds 1 NaN or infinite numbers of 10240"]


async def test_the_title_says_which_table_of_tokens_is_broken(tiny_copy: TinyModel) -> None:
    folder = break_table(tiny_copy("llama", with_head=True), TABLES_OF_TOKENS[0])
    async with explorer(folder, size=(140, 30)) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        said = "without ov_copying: model.embed_tokens.weight holds 1 NaN or infinite numbers of 10240"
        assert said in screen_text(app)


TEXT = "the cat sat"

SAID = r"h\.1\.attn\.c_attn\.weight holds 2 NaN or infinite numbers of 3072$"


@pytest.fixture
def engine(tiny_copy: TinyModel) -> Engine:
    """Open a model with NaN and ∞ in the queries of the middle layer's first head."""
    folder = tiny_copy("gpt2", with_head=True, n_layer=3)
    with edited_weights(folder) as tensors:
        tensors["transformer.h.1.attn.c_attn.weight"][:2, 0] = torch.tensor([torch.nan, torch.inf])
    return start_engine(folder)


PREDICTING = ("predictions", "lens", "contributions", "ablation")


@pytest.mark.parametrize("view", PREDICTING)
def test_nothing_is_predicted_from_nan(view: str, engine: Engine) -> None:
    with pytest.raises(EngineError, match=rf"gives here are NaN, so it predicts nothing: transformer\.{SAID}"):
        engine.table(view, Query(text=TEXT)).result()


def test_maps_and_scores_name_the_broken_weights(engine: Engine) -> None:
    assert np.isfinite(engine.attention(TEXT, "decoder", 0).result().weights).all()
    with pytest.raises(EngineError, match=f"decoder L1 has no map to show: {SAID}"):
        engine.attention(TEXT, "decoder", 1).result()
    with pytest.raises(EngineError, match=r"what it reads holds NaN .*; its spectra still work"):
        engine.attention(TEXT, "decoder", 2).result()
    for layer in (1, 2):
        with pytest.raises(EngineError, match="NaN or infinite queries or keys"):
            engine.table("explain", Query(layer=Head("decoder", layer), head=0, text=TEXT)).result()
    assert engine.table("explain", Query(layer=Head("decoder", 0), head=0, text=TEXT)).result().rows


def test_nothing_is_predicted_if_the_logit_of_an_unread_token_is_infinite(tiny_copy: TinyModel) -> None:
    folder = break_table(tiny_copy("gpt2", with_head=True), "transformer.wte.weight")
    engine, said = start_engine(folder), r"are infinite, so it predicts nothing: .*wte\.weight holds 1 NaN or infinite"
    for view in PREDICTING:
        with pytest.raises(EngineError, match=said):
            engine.table(view, Query(text=TEXT)).result()
