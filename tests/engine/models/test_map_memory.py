"""Reading a sentence and computing maps holds one layer's maps, and asks for their memory before."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.activations import ACT2FN

from engine.models import attention_maps
from engine.models.live_module import ModuleSource
from engine.models.model_loader import load_reader
from engine.models.reader import PIECE, split_activations
from engine.values import memory
from engine.values.heads import Head, Off
from tests.conftest import TinyModel
from tests.engine.models.test_attention import SENTENCE
from tests.opening import no_hurry, open_reader, refused, run_apart
from tests.own_maps import own_maps


@pytest.mark.parametrize(("model_type", "copies"), [("gpt2", 1), ("bloom", 4)])
def test_maps_that_do_not_fit_are_refused_before_they_are_tried(
    model_type: str, copies: int, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_reader(tiny_model(model_type))
    count = len(reader.words.read(SENTENCE, None).ids)
    states = 6 + len(reader.modules)  # queries, keys, values and their results, and what each layer reads
    needed = copies * 4 * count**2 * 4 + states * count * 32 * 4  # with the maps of 4 heads
    monkeypatch.setattr(attention_maps, "UNCHECKED_BYTES", 0)
    for free in (None, needed):
        monkeypatch.setattr(memory, "free_memory", lambda free=free: free)
        reader = reader.sharing_model()
        assert reader.read(SENTENCE, no_hurry).ids
    reader = reader.sharing_model()
    monkeypatch.setattr(memory, "free_memory", lambda: needed - 1)
    said = refused(lambda: reader.read(SENTENCE, no_hurry))
    assert re.search(rf"maps of {count} tokens need .* GB are free.*spectra", said)


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
    for layer, expected in zip(source.anatomy.outline.layers, own_maps(model, sentence.ids), strict=True):
        np.testing.assert_allclose(reader.layer_maps(layer.name).weights, expected, rtol=0, atol=1e-6)
    ran.clear()
    reader.read("5 9 2 7 1", no_hurry, Off((Head("decoder", 0, 1),), by_mean=True))
    assert ran.count("transformer.ln_f") == 1, "in the run that takes the means"


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


PEAKS = """
import json, sys
from pathlib import Path
import transformers
from engine.checkpoints.locate import locate
from engine.checkpoints.source import FolderSource
from engine.models.live_module import ModuleSource
from engine.models.model_loader import load_reader
from engine.values import memory
from engine.values.errors import EngineError

def status(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) * 1024

def peaks(source, text):
    '''Give what reading a text takes, then one layer's maps and their mean, as shares of one layer's maps.'''
    reader = load_reader(source, "cpu", "auto")
    reader.read("1 2 3", rest)
    first, *_, last = reader.modules
    reader.layer_maps(first)  # loads what is loaded once
    found = []
    works = lambda: reader.read(text, rest), lambda: reader.layer_maps(last), lambda: reader.layer_maps(last.stack)
    for work in works:
        before = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        made = work()
        found.append(status("VmHWM") - before)
    heads, size = source.anatomy.outline.layer(last).heads, made.weights.nbytes
    assert size == heads * 2048**2 * 4
    free, memory.free_memory = memory.free_memory, lambda: max(found) // 1.1
    try:
        reader.read(f"7 {text}", rest)
    except EngineError:
        memory.free_memory = free
        return [each / size for each in found]

rest = lambda: None
folders = [peaks(FolderSource(locate(folder)), " ".join(["cat dog"] * 2000)) for folder in sys.argv[1:]]
shape = {"n_positions": 2048, "n_layer": 6, "n_head": 6, "n_embd": 384, "vocab_size": 12000}
module = ModuleSource(transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)))
print(json.dumps([*folders, peaks(module, " ".join(str(17 * token % 12000) for token in range(2048)))]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a while")
def test_reading_takes_no_more_memory_than_one_layers_maps_and_than_is_asked_for_before(tiny_model: TinyModel) -> None:
    settings = {"max_position_embeddings": 2048, "num_attention_heads": 8, "num_key_value_heads": 8}
    folders = [tiny_model(name, **settings) for name in ("llama", "bert")]
    folders.append(tiny_model("mistral", **settings, sliding_window=1024))
    # With a fixed threshold freed memory goes back to the system, so that no model uses what another has freed.
    found = run_apart(PEAKS, *folders, OMP_NUM_THREADS="1", MALLOC_MMAP_THRESHOLD_="131072")
    llama, bert, mistral, gpt2 = map(max, json.loads(found.splitlines()[-1]))
    assert llama < 0.65, "what the mask hides is written"
    assert mistral < 0.5, "what the window hides is written"
    assert bert < 1.1, "more than one layer's maps are held"
    assert gpt2 < 1, "the maps of all layers, or the logits of all tokens, are held"
