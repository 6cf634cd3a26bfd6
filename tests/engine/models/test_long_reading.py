"""Reading a long sentence ends at the last attention module, and holds no more than one layer's maps."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.activations import ACT2FN

from engine.models.live_module import ModuleSource
from engine.models.model_loader import load_reader
from engine.models.reader import PIECE, split_activations
from engine.values.heads import Head, Off
from tests.conftest import TinyModel
from tests.opening import no_hurry, open_reader, run_apart

TOKENS = 2048


def test_a_run_ends_at_the_last_attention_module(tiny_model: TinyModel) -> None:
    model: Any = transformers.GPT2LMHeadModel.from_pretrained(tiny_model("gpt2"), attn_implementation="eager").eval()
    ran: list[str] = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda module, args, result, name=name: ran.append(name))
    source = ModuleSource(model)
    ran.clear()
    reader = load_reader(source, "cpu", "auto")
    sentence = reader.read("5 9 2 7 1", no_hurry)
    last = source.anatomy.outline.layers[-1].name
    assert not {"lm_head", "transformer.ln_f", f"transformer.h.{last.layer}.mlp"} & set(ran)
    assert f"transformer.h.{last.layer - 1}.mlp" in ran
    with torch.no_grad():
        expected = model(torch.tensor([sentence.ids]), output_attentions=True).attentions
    for layer in source.anatomy.outline.layers:
        found = reader.layer_maps(layer.name).weights
        torch.testing.assert_close(torch.from_numpy(found), expected[layer.layer][0], rtol=0, atol=1e-6)


def test_the_states_of_the_last_block_are_gone_with_the_run(tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model("gpt2"))
    made: list[weakref.ref[torch.Tensor]] = []
    reader.model.h[0].register_forward_hook(lambda block, args, result: made.append(weakref.ref(result)))
    gc.collect()
    gc.disable()
    try:
        sentence = reader.read("The cat sat on the mat.", no_hurry)
        assert len(made) == 1
        assert made[0]() is None
        assert len(sentence.ids) > 1
    finally:
        gc.enable()


def test_a_run_with_heads_switched_off_by_their_mean_ends_there_too(tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model("gpt2"))
    ran = 0

    def count(*_: Any) -> None:
        nonlocal ran
        ran += 1

    reader.model.ln_f.register_forward_hook(count)
    reader.read("The cat sat on the mat.", no_hurry, Off((Head("decoder", 0, 1),), by_mean=True))
    assert ran == 1  # by the run that takes the means


@pytest.mark.parametrize("name", sorted(set(ACT2FN) - {"prelu"}))
def test_activations_in_pieces_are_the_same_bit_for_bit(name: str) -> None:
    torch.manual_seed(0)
    activation: Any = ACT2FN[name]
    numbers = 3 * torch.randn(3, PIECE + 77)
    with torch.inference_mode():
        expected = activation(numbers.clone())
        with split_activations(torch.nn.Sequential(activation)):
            found = activation(numbers)
    assert torch.equal(found, expected)
    assert "forward" not in vars(activation)


PEAK = """
import json, sys
from pathlib import Path
import torch, transformers
from engine.models.live_module import ModuleSource
from engine.models.model_loader import load_reader

def status(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) * 1024

shape = {"n_positions": 2048, "n_layer": 6, "n_head": 6, "n_embd": 384, "vocab_size": 12000}
source = ModuleSource(transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)))
reader = load_reader(source, "cpu", "auto")
first, another, *_ = [layer.name for layer in source.anatomy.outline.layers]
reader.read("1 2 3", lambda: None)
reader.layer_maps(first)  # loads what is loaded once
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
reader.read(" ".join(str(17 * token % 12000) for token in range(2048)), lambda: None)
peaks = [status("VmHWM") - before]
for layer in (first, another, first):
    size = reader.layer_maps(layer).weights.nbytes
    peaks.append(status("VmHWM") - before)
print(json.dumps([peaks, size]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a while")
def test_reading_and_then_looking_at_layers_holds_one_layers_maps_and_not_all_layers() -> None:
    peaks, maps = json.loads(run_apart(PEAK, OMP_NUM_THREADS="1").splitlines()[-1])
    assert maps == 6 * TOKENS**2 * 4
    assert max(peaks) < 2 * maps  # of which there are six; the logits, which nobody looks at, are one more
