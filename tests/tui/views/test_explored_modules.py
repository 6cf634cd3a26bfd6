"""The explorer opens on a model in memory, and on an adapter, with everything that it shows of a checkpoint."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from pathlib import Path
from time import monotonic, sleep

import pytest
from torch import nn

import tui
from engine.service.engine import Engine
from engine.values.errors import EngineError
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_adapters import LAYER, low_rank, write_adapter
from tests.handmade import Grouped, LanguageModel
from tests.terminal import Terminal
from tests.tui.explorer import PATIENCE, active_table, explorer, press, see, shown, shown_map


async def test_a_module_is_explored_like_a_checkpoint(folder: Path) -> None:
    engine = Engine.of_module(LanguageModel(Grouped), None, "mine", None)
    async with explorer("mine", size=(160, 50), text="1 2 3 4 5", head="L1H2", engine=engine) as (app, pilot):
        pooled = shown_map(app)
        key = int(pooled.values[4].argmax())
        readout = f'q 4 "5" → k {key} "{key + 1}"  {pooled.values[4, key]:.2f}  '
        for said in ("mine", "2 layers × 4 heads (2 key/value)", "L1H2", readout):
            await see(pilot, text=said)
        await press(pilot, "e", "v")
    assert list(folder.glob("*.csv"))


def test_an_explored_module_is_freed_and_no_thread_stays() -> None:
    async def look(module: nn.Module) -> None:
        engine = Engine.of_module(module, None, "mine", None)
        async with explorer("mine", text="1 2 3 4 5", head="L1H2", engine=engine) as (app, _):
            await app.action_quit()

    def stay() -> list[str]:
        names = [each.name for each in threading.enumerate() if each not in before]
        return [name for name in names if name != "tqdm_monitor"]  # of the progress bar of transformers, for good

    before = set(threading.enumerate())
    module = LanguageModel(Grouped)
    explored = weakref.ref(module)
    asyncio.run(look(module))
    del module
    end = monotonic() + PATIENCE
    while explored() is not None or stay():
        assert monotonic() < end, f"the module is there: {explored() is not None}; threads: {stay()}"
        gc.collect()


SLOW = """
import sys, time, transformers, tui
from pathlib import Path

def slow(module, args):
    Path(sys.argv[1]).touch()
    time.sleep(3)

shape = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 64, "n_positions": 64}
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)).eval()
model.transformer.h[0].mlp.register_forward_pre_hook(slow)
tui.explore(model, text="1 2 3")
hooks = sum(len(each._forward_pre_hooks) + len(each._forward_hooks) for each in model.modules())
print("hooks", hooks, model.config._attn_implementation)
"""


def test_explore_returns_once_nothing_runs_the_module(tmp_path: Path) -> None:
    runs, end = tmp_path / "runs", monotonic() + PATIENCE
    with Terminal(sys.executable, "-c", SLOW, str(runs)) as terminal:
        while not runs.exists():
            assert monotonic() < end
            sleep(0.01)
        terminal.send("q")
        assert terminal.exit_code() == 0
        assert "hooks 1 sdpa" in terminal.text()


def test_the_explorer_of_a_module_needs_a_terminal() -> None:
    with pytest.raises(EngineError, match="needs a terminal"):
        tui.explore(LanguageModel(Grouped))


@pytest.fixture
def adapter(tiny_model: TinyModel, tmp_path: Path) -> Path:
    return write_adapter(tmp_path / "adapter", str(tiny_model("llama")), low_rank(f"{LAYER}.q_proj", 32, 32))


async def test_the_change_of_an_adapter_is_a_stack_of_the_tree_and_says_what_it_lacks(adapter: Path) -> None:
    async with explorer(adapter, size=(160, 50), head="decoder-delta.L1H0", text="The cat") as (app, pilot):
        for said in ("decoder-delta", "choose the stack decoder"):
            await see(pilot, text=said)
        await see(pilot, "unbound:app.check", text="2 layers: 2 verified")
        await press(pilot, "escape", "2")
        assert shown(app.views.ranks.chance_line).split() == ["chance", *["×"] * 6]
        await press(pilot, "w", "w")
        active_table(app).grid.go_to_column("qk_positive_mass")
        await see(pilot, text="is empty: a change of weights has ranks alone")
