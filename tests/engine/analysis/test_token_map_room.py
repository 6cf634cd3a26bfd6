"""The product of both tables of tokens: what it takes is said before it is formed, and the explorer may do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.analysis import whole_layers
from engine.analysis.token_tables import token_map
from engine.service.engine import Engine
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.progress import ProgressReporter, finish, tell_nobody
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.engine.analysis.test_large_layers import session
from tests.engine.checkpoints.test_layers_in_memory import Made
from tests.exporting import exported, run
from tests.opening import outline
from tests.sparse_checkpoints import SHAPES, write_checkpoint

GB = 10**9


@pytest.fixture
def folder(tiny_model: TinyModel) -> Path:
    return tiny_model("gpt2", with_head=True)


def test_what_a_wide_model_takes_is_more_than_browsing_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = session(write_checkpoint(tmp_path / "405b", SHAPES["405b"], filled=())).outline.layers[0]
    monkeypatch.setattr(whole_layers, "free_memory", lambda: 20 * GB)
    what = "ov_copying takes the product of both tables of tokens, which needs 4.3 GB of memory"
    assert whole_layers.token_map_room(layer, is_browsing=False) == (True, what)
    has_room, said = whole_layers.token_map_room(layer, is_browsing=True)
    assert not has_room
    assert said == f"{what}; it is left empty here, and computed by: attn-tui export MODEL circuits"
    monkeypatch.setattr(whole_layers, "free_memory", lambda: 100 * GB)
    assert whole_layers.token_map_room(layer, is_browsing=True) == (True, what)
    monkeypatch.setattr(whole_layers, "free_memory", lambda: 4 * GB)
    assert whole_layers.token_map_room(layer, is_browsing=False) == (
        False, f"{what}, and 4.0 GB are free; it is left empty"
    )  # fmt: skip
    assert whole_layers.token_map_room(outline("small").layers[0], is_browsing=True) == (True, "")


def test_the_command_says_what_it_takes_and_the_explorer_leaves_it_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = exported(folder, "circuits", "--head", "L0H0")
    monkeypatch.setattr(whole_layers, "MOST_BROWSED", 0)
    monkeypatch.setattr(whole_layers, "FREE_SHARE", 0)
    done = run(folder, "circuits", "--head", "L0H0")
    assert done.stderr.startswith("attn-tui: ov_copying takes the product of both tables of tokens, which needs ")
    assert done.stderr.count("\n") == 1
    assert exported(folder, "circuits", "--head", "L0H0") == plain
    assert plain[0]["ov_copying"]
    engine, notices = Engine(EngineOptions(use_cache=False, is_browsing=True)), list[str]()
    engine.listen(notices.append)
    try:
        engine.open(str(folder), lambda progress: None).result()
        (row,) = engine.table("circuits", Query(layer=Head("decoder", 0), head=0)).result()
    finally:
        engine.stop()
    named = dict(zip(plain[0], row, strict=True))
    assert named["ov_copying"] is named["ov_copying_chance"] is None
    assert str(named["ov_copying_residual"]) == plain[0]["ov_copying_residual"]
    assert [notice for notice in notices if "left empty here" in notice]


class MadeWhole(Made):
    """Notes the size of everything that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.largest = 0
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.sizes.append(self.largest)
        return result


def test_the_product_of_a_table_with_itself_makes_no_second_one() -> None:
    torch.manual_seed(0)
    table = torch.randn(50, 64)
    with MadeWhole() as made:
        found = finish(token_map(table, None, ProgressReporter(tell_nobody, "", "")))
    torch.testing.assert_close(found, table.double().mT @ table.double())
    assert torch.equal(found, found.mT)
    assert made.sizes.count(8 * 64 * 64) == 1
