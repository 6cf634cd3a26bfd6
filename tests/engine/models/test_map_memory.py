"""What a layer's maps need of main memory is asked for before they are made, and is what they take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.models import attention_maps
from engine.values import memory
from engine.values.errors import EngineError
from tests.conftest import TinyModel
from tests.engine.models.test_attention import ANOTHER, SENTENCE
from tests.opening import no_hurry, one_line, open_reader, run_apart


@pytest.mark.parametrize(("model_type", "copies"), [("gpt2", 1), ("bloom", 4)])
def test_maps_that_do_not_fit_are_refused_before_they_are_tried(
    model_type: str, copies: int, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_reader(tiny_model(model_type))
    count = len(reader.words.read(SENTENCE, None).ids)
    states = 6 + len(reader.modules)  # queries, keys, values and what comes of them, and what each layer reads
    needed = copies * 4 * count**2 * 4 + states * count * 32 * 4  # with the maps of 4 heads
    monkeypatch.setattr(attention_maps, "SMALL", 0)
    for free in (None, needed, needed - 1):
        monkeypatch.setattr(memory, "free_memory", lambda free=free: free)
        if free != needed - 1:
            assert reader.read(SENTENCE, no_hurry).ids
            reader.read(ANOTHER, no_hurry)
            reader.forget(SENTENCE)
            continue
        with pytest.raises(EngineError, match=rf"maps of {count} tokens need .* GB are free.*spectra") as caught:
            reader.read(SENTENCE, no_hurry)
        assert one_line(caught.value)


PEAK = """
import json, sys
from pathlib import Path
from engine.values import memory
from engine.checkpoints.source import FolderSource
from engine.checkpoints.locate import locate
from engine.models.model_loader import load_reader
from engine.values.errors import EngineError

def status(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) * 1024

reader = load_reader(FolderSource(locate(sys.argv[1])), "cpu", "auto")
rest = lambda: None
reader.read("the cat sat", rest)
first, last = list(reader.modules)
reader.layer_maps(first)  # loads what is loaded once
text = " ".join(["cat dog"] * 2000)
tokens = len(reader.read(text, rest).ids)
found = []
for work in (lambda: reader.layer_maps(last), lambda: reader.layer_maps(last.stack)):
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    size = work().weights.nbytes
    found.append([status("VmHWM") - before, size])
memory.free_memory = lambda: max(peak for peak, _ in found) // 1.1
try:
    reader.read(f"the {text}", rest)
except EngineError:
    print(json.dumps([tokens, found]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a while")
@pytest.mark.parametrize(
    ("model_type", "most", "settings"),
    [("llama", 0.65, {}), ("mistral", 0.5, {"sliding_window": 1024}), ("bert", 1.1, {})],
)
def test_making_one_layers_maps_and_means_takes_no_more_memory_than_is_asked_for_before(
    model_type: str, most: float, settings: dict[str, Any], tiny_model: TinyModel
) -> None:
    heads = {"num_attention_heads": 8, "num_key_value_heads": 8}
    folder = tiny_model(model_type, max_position_embeddings=2048, **heads, **settings)
    tokens, found = json.loads(run_apart(PEAK, folder, OMP_NUM_THREADS="1").splitlines()[-1])
    assert tokens == 2048
    for peak, size in found:
        assert size == 8 * 2048**2 * 4
        assert peak < most * size  # what the mask hides is never written; the eager way takes three layers' maps
