"""Reading a sentence and computing maps holds one layer's maps, and asks for their memory before."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.models import attention_maps
from engine.values import memory
from tests.conftest import TinyModel
from tests.engine.models.test_attention import SENTENCE
from tests.opening import no_hurry, open_reader, refused, run_apart


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
of_folder = peaks(FolderSource(locate(sys.argv[1])), " ".join(["cat dog"] * 2000))
shape = {"n_positions": 2048, "n_layer": 3, "n_head": 6, "n_embd": 384, "vocab_size": 12000}
module = ModuleSource(transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)))
print(json.dumps([of_folder, peaks(module, " ".join(str(17 * token % 12000) for token in range(2048)))]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a while")
def test_reading_takes_no_more_memory_than_one_layers_maps_and_than_is_asked_for_before(tiny_model: TinyModel) -> None:
    settings = {"max_position_embeddings": 2048, "num_attention_heads": 8, "num_key_value_heads": 8}
    folder = tiny_model("llama", **settings)
    # With a fixed threshold freed memory goes back to the system, so that no model uses what another has freed.
    found = run_apart(PEAKS, folder, OMP_NUM_THREADS="1", MALLOC_MMAP_THRESHOLD_="131072")
    for reading, *of_maps in json.loads(found.splitlines()[-1]):
        assert reading < 1.3, "the maps of all layers, or the logits of all tokens, are held"
        assert max(of_maps) < 1.3, "more than one layer's maps are held"
