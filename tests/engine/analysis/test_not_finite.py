"""Models with NaN or infinite weights: results that depend on these are left out or refused with a reason."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.service.engine import Engine
from engine.values.heads import Head
from engine.values.views import Query
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


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "lm_head.weight"])
def test_a_broken_table_of_tokens_empties_only_ov_copying(
    name: str, tiny_model: TinyModel, tiny_copy: TinyModel
) -> None:
    settings = {"with_head": True, "tie_word_embeddings": False}
    folder, whole = tiny_copy("llama", **settings), tiny_model("llama", **settings)
    with edited_weights(folder) as tensors:
        tensors[name][-1, 0] = torch.inf
    done = attn_tui("export", folder, "circuits")
    assert done.returncode == 0
    assert done.stderr == f"attn-tui: without ov_copying: {name} holds 1 NaN or infinite numbers of 10240\n"
    expected = exported(whole, "circuits")
    assert all(row["ov_copying"] for row in expected)
    assert rows_in(done.stdout) == [row | {"ov_copying": "", "ov_copying_chance": ""} for row in expected]


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
