"""Models with NaN or infinite weights: results that depend on these are left out or refused with a reason."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.service.engine import Engine
from engine.values.heads import Head
from engine.values.views import PATTERNS, Query
from tests.conftest import TinyModel
from tests.exporting import attn_tui, exported, refusal, rows_in
from tests.opening import edited_weights, refused, start_engine
from tests.tui.explorer import explorer, press, screen_text, shown

TEXT = "the cat sat"

LAYERS = 3

Breaking = Callable[..., Path]


@pytest.fixture
def sound(tiny_model: TinyModel) -> Path:
    return tiny_model("llama", num_hidden_layers=LAYERS)


@pytest.fixture
def broken(sound: Path, tmp_path: Path) -> Breaking:
    """Give a function that copies the model with a NaN in each of some tensors, as ``1.k_proj`` for L1's keys."""

    def copy(*parts: str) -> Path:
        folder = Path(shutil.copytree(sound, tmp_path / "-".join(parts)))
        with edited_weights(folder) as tensors:
            for layer, name in (part.split(".") for part in parts):
                (tensor,) = (each for each in tensors if each.startswith(f"layers.{layer}.") and f".{name}." in each)
                tensors[tensor].view(-1)[3] = torch.nan
        return folder

    return copy


@pytest.mark.parametrize(
    "command",
    [
        ("ranks",), ("spectrum",), ("circuits",), ("composition",), ("composition", "--head", "L2H1"),
        ("directions", "--top", "2", "--first", "2"), ("changes", "--vs"),
    ],
)  # fmt: skip
def test_a_table_lacks_the_rows_of_that_layer_alone(command: tuple[str, ...], sound: Path, broken: Breaking) -> None:
    command = (*command, str(sound)) if command[-1] == "--vs" else command
    done = attn_tui("export", broken("1.k_proj"), *command)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "decoder L1 is left out: layers.1.self_attn.k_proj.weight holds 1 NaN or infinite numbers of 512" in line
    expected = [row for row in exported(sound, *command) if "1" not in (row["layer"], row.get("from_layer"))]
    assert expected
    assert rows_in(done.stdout) == expected


def test_a_file_of_arrays_lacks_that_layer_alone(broken: Breaking, tmp_path: Path) -> None:
    done = attn_tui("export", broken("1.o_proj"), "matrices", "-o", tmp_path / "heads.npz")
    assert done.returncode == 0
    assert "decoder L1 is left out: layers.1.self_attn.o_proj.weight" in done.stderr
    with np.load(tmp_path / "heads.npz") as arrays:
        assert {name.partition("H")[0] for name in arrays} == {"L0", "L2"}


V_PROJ = "layers.1.self_attn.v_proj.weight holds 1 NaN or infinite numbers"
OF_LAYER = "1.q_proj", "1.k_proj", "1.v_proj", "1.o_proj"


@pytest.mark.parametrize(
    ("parts", "command", "said"),
    [
        (("1.v_proj",), ("circuits", "--layer", "1"), (V_PROJ,)),
        (("1.v_proj",), ("circuits", "--head", "L1H0"), (V_PROJ,)),
        (("1.q_proj", "1.o_proj"), ("ranks", "--layer", "1"), ("q_proj.weight holds 1", "o_proj.weight holds 1")),
        (OF_LAYER, ("ranks", "--layer", "1"), ("v_proj.weight holds 1", "and so does one more of its tensors")),
        (
            tuple(f"{layer}.q_proj" for layer in range(LAYERS)),
            ("ranks",),
            ("nothing can be computed: decoder L0: layers.0.self_attn.q_proj.weight holds 1", "L1, L2"),
        ),
    ],
)
def test_a_request_for_broken_weights_alone_is_refused_and_writes_no_file(
    parts: tuple[str, ...], command: tuple[str, ...], said: tuple[str, ...], broken: Breaking, tmp_path: Path
) -> None:
    line = refusal(broken(*parts), *command, "-o", tmp_path / "table.csv")
    assert all(each in line for each in said), line
    assert not (tmp_path / "table.csv").exists()


@pytest.mark.parametrize("view", ["changes", "spectrum"])
def test_the_model_with_the_fault_is_named(view: str, sound: Path, broken: Breaking) -> None:
    copy = broken("1.k_proj")
    done = attn_tui("export", sound, view, "--vs", copy)
    assert done.returncode == 0
    assert f"decoder L1 is left out: in {copy} layers.1.self_attn.k_proj.weight holds 1" in done.stderr
    assert {row["layer"] for row in rows_in(done.stdout)} == {"0", "2"}


def test_the_gain_of_a_folded_norm_counts_too(broken: Breaking) -> None:
    done = attn_tui("export", broken("0.input_layernorm"), "directions", "--fold-norm", "--first", "1", "--top", "1")
    said = "decoder L0 is left out: layers.0.input_layernorm.weight holds 1 NaN or infinite numbers of 32"
    assert said in done.stderr
    assert {row["layer"] for row in rows_in(done.stdout)} == {"1", "2"}


async def test_the_explorer_shows_the_others_and_says_what_is_left_out(broken: Breaking) -> None:
    async with explorer(broken("1.k_proj"), size=(110, 30)) as (app, pilot):
        await press(pilot, "unbound:app.tree", "home", "2")
        rows = [line.split() for line in screen_text(app).replace("│", " ").splitlines()]
        assert [row[-6:] for row in rows if row[-7:-6] == ["L1"]] == [["×"] * 6]
        assert [row[-6:].count("×") for row in rows if row[-7:-6] == ["L2"]] == [0]
        await press(pilot, "4")
        assert re.search(r"4 circuits all layers ─+ without L1 \(NaN or infinite\) ", screen_text(app))
        await press(pilot, "2", "unbound:app.tree", *":L1H0", "enter")
        assert shown(app.views.ranks.chance_line).split() == ["chance", *["×"] * 6], "there will be none"


TABLES_OF_TOKENS = ("model.embed_tokens.weight", "lm_head.weight")


def break_table(folder: Path, name: str) -> Path:
    """Put one infinite number into a row of a table of tokens that no test reads."""
    with edited_weights(folder) as tensors:
        tensors[name][-1, 0] = torch.inf
    return folder


UNTIED = {"with_head": True, "tie_word_embeddings": False}


@pytest.fixture
def whole(tiny_model: TinyModel) -> Path:
    return tiny_model("llama", **UNTIED)


@pytest.fixture(params=TABLES_OF_TOKENS)
def with_broken_table(request: pytest.FixtureRequest, tiny_copy: TinyModel) -> tuple[Path, str]:
    """Copy that model with an infinite number in its embedding or unembedding, and name that tensor."""
    return break_table(tiny_copy("llama", **UNTIED), request.param), request.param


def without(row: dict[str, str], columns: Collection[str]) -> dict[str, str]:
    return {name: cell for name, cell in row.items() if name not in columns}


@pytest.mark.parametrize("view", ["circuits", "heads", "changes"])
def test_a_broken_table_of_tokens_empties_only_ov_copying(
    view: str, with_broken_table: tuple[Path, str], whole: Path
) -> None:
    folder, name = with_broken_table
    more = ("--vs", whole) if view == "changes" else ()
    done = attn_tui("export", folder, view, *more)
    assert done.returncode == 0
    rows, expected = rows_in(done.stdout), exported(whole, view, *more)
    emptied = [each for each in expected[0] if each.startswith("ov_copying") and "residual" not in each]
    assert any(row[each] for row in expected for each in emptied)
    said = f"without {emptied[0]}: {name} holds 1 NaN or infinite numbers of 10240"
    if view == "heads":
        assert {row["note"] for row in rows} == {said}
    else:
        assert done.stderr == f"attn-tui: {said}\n"
    others = {"note", *emptied, *(PATTERNS.columns[3:] if view == "heads" else ())}
    for row, own in zip(rows, expected, strict=True):
        assert {row[each] for each in emptied} == {""}
        assert without(row, others) == without(own, others)


def test_directions_name_the_tokens_of_the_sound_table(with_broken_table: tuple[Path, str], whole: Path) -> None:
    folder, name = with_broken_table
    options = ("directions", "--head", "L1H2", "--first", "2", "--top", "1")
    done = attn_tui("export", folder, *options)
    what = f"{name} holds 1 NaN or infinite numbers of 10240"
    assert done.stderr == f"attn-tui: without tokens: {what}\n"
    lacking = {"output"} if name == "lm_head.weight" else {"query", "key", "input"}
    rows, expected = rows_in(done.stdout), exported(whole, *options)
    unsaid = {row["side"]: (row["token"], row["note"]) for row in rows if not row["token_id"]}
    assert unsaid == dict.fromkeys(lacking, ("", what))
    assert [row for row in rows if row["token_id"]] == [row for row in expected if row["side"] not in lacking]
    values = [{(row["matrix"], row["index"], row["singular_value"]) for row in each} for each in (rows, expected)]
    assert values[0] == values[1]


def test_a_score_is_explained_without_tokens(tiny_copy: TinyModel, whole: Path) -> None:
    name = TABLES_OF_TOKENS[0]
    options = ("explain", "--text", TEXT, "--head", "L1H2")
    rows = exported(break_table(tiny_copy("llama", **UNTIED), name), *options)
    columns = ("query_tokens", "key_tokens", "note")
    for row, own in zip(rows, exported(whole, *options), strict=True):
        assert without(row, columns) == without(own, columns)
        if own["query_tokens"]:
            assert [row[each] for each in columns] == ["", "", f"{name} holds 1 NaN or infinite numbers of 10240"]


SAID = "h.1.attn.c_attn.weight holds 2 NaN or infinite numbers of 3072"


@pytest.fixture
def engine(tiny_copy: TinyModel) -> Engine:
    """Open a model with NaN and ∞ in the queries of the middle layer's first head."""
    folder = tiny_copy("gpt2", with_head=True, n_layer=3)
    with edited_weights(folder) as tensors:
        tensors["transformer.h.1.attn.c_attn.weight"][:2, 0] = torch.tensor([torch.nan, torch.inf])
    return start_engine(folder)


PREDICTING = ("predictions", "lens", "contributions", "ablation")


def test_nothing_is_predicted_from_nan(engine: Engine) -> None:
    for view in PREDICTING:
        said = refused(engine.table(view, Query(text=TEXT)).result)
        assert said.endswith(f"gives here are NaN, so it predicts nothing: transformer.{SAID}")


def test_maps_and_scores_name_the_broken_weights(engine: Engine) -> None:
    assert np.isfinite(engine.attention(TEXT, "decoder", 0).result().weights).all()
    first, second = (refused(engine.attention(TEXT, "decoder", layer).result) for layer in (1, 2))
    assert first.endswith(f"decoder L1 has no map to show: {SAID}")
    assert re.search("what it reads holds NaN .*; its spectra still work", second)
    whole, *broken = (
        engine.table("explain", Query(layer=Head("decoder", layer), head=0, text=TEXT)).result for layer in range(3)
    )
    assert whole().rows
    assert all("NaN or infinite queries or keys" in refused(each) for each in broken)


def test_nothing_is_predicted_if_the_logit_of_an_unread_token_is_infinite(tiny_copy: TinyModel) -> None:
    folder = break_table(tiny_copy("gpt2", with_head=True), "transformer.wte.weight")
    engine, said = start_engine(folder), r"are infinite, so it predicts nothing: .*wte\.weight holds 1 NaN or infinite"
    for view in PREDICTING:
        assert re.search(said, refused(engine.table(view, Query(text=TEXT)).result))
