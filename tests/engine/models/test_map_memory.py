"""What a layer's maps need of main memory is asked for before they are made, and is what they take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.checkpoints import size_bounds
from engine.models import attention_maps
from engine.models.attention_maps import MapArray
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
    needed = copies * 4 * count**2 * 4 + 6 * count * 32 * 4  # maps of 4 heads, and their queries, keys and values
    for free in (None, needed, needed - 1):
        monkeypatch.setattr(size_bounds, "free_memory", lambda free=free: free)
        if free != needed - 1:
            assert reader.read(SENTENCE, no_hurry).ids
            reader.read(ANOTHER, no_hurry)
            reader.forget(SENTENCE)
            continue
        with pytest.raises(EngineError, match=rf"maps of {count} tokens need .* GB are free.*spectra") as caught:
            reader.read(SENTENCE, no_hurry)
        assert one_line(caught.value)


PEAK = """
import json, sys, threading
from pathlib import Path
from engine.checkpoints import size_bounds
from engine.checkpoints.source import FolderSource
from engine.checkpoints.locate import locate
from engine.models.loading import load_reader
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
for work in (lambda: reader.layer_maps(last), lambda: reader.mean_over_layers(last.stack, rest)):
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    size = work().weights.nbytes
    found.append([status("VmHWM") - before, size])
enough, too_little = 2**40, 0
while enough - too_little > 2**16:
    free = (enough + too_little) // 2
    size_bounds.free_memory = lambda: free
    try:
        reader._need_memory(tokens)
        enough = free
    except EngineError:
        too_little = free
print(json.dumps([tokens, found, enough]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a while")
@pytest.mark.parametrize(
    ("model_type", "most", "settings"),
    [("llama", 0.65, {}), ("mistral", 0.5, {"sliding_window": 1024}), ("bert", 1.1, {})],
)
def test_making_one_layers_maps_and_means_takes_the_memory_that_is_asked_for_before(
    model_type: str, most: float, settings: dict[str, Any], tiny_model: TinyModel
) -> None:
    heads = {"num_attention_heads": 8, "num_key_value_heads": 8}
    folder = tiny_model(model_type, max_position_embeddings=2048, **heads, **settings)
    tokens, found, asked = json.loads(run_apart(PEAK, folder, OMP_NUM_THREADS="1").splitlines()[-1])
    assert tokens == 2048
    for peak, size in found:
        assert size == 8 * 2048**2 * 4
        assert peak < most * size  # what the mask hides is never written; the eager way takes three layers' maps
        assert peak / 1.1 < asked < 1.25 * peak


@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("looks_back", [True, False])
def test_what_a_mask_lets_queries_see_is_read_off_it(looks_back: bool, window: int | None) -> None:
    queries, keys = torch.arange(320)[:, None], torch.arange(320)
    seen = torch.ones(320, 320, dtype=torch.bool)
    if looks_back:
        seen &= keys <= queries
    if window is not None:
        seen &= (keys - queries).abs() <= window
    found = attention_maps.seen_through(seen[None, None], 320, 320)
    added = attention_maps.seen_through(torch.zeros(1, 1, 320, 320).masked_fill(~seen, torch.finfo().min), 320, 320)
    together = seen.unflatten(0, (5, 64)).any(1)
    written = [int(each.nonzero().max() - each.nonzero().min()) + 1 for each in together]
    assert found == added == sum(written) * 64 / 320**2


def test_a_layer_that_a_mask_keeps_small_is_made_where_a_whole_one_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = torch.full((1, 1, 4096, 4096), -torch.inf).triu(1)
    half, whole = 2 * 4096**2 * 4 * 5 // 8, 2 * 4096**2 * 4
    monkeypatch.setattr(size_bounds, "free_memory", lambda: (half + whole) // 2)
    MapArray().begin((2, 4096, 4096), mask)
    with pytest.raises(EngineError, match=r"maps of 4,?096 tokens"):
        MapArray().begin((2, 4096, 4096))
    monkeypatch.setattr(size_bounds, "free_memory", lambda: half - 2**23)
    with pytest.raises(EngineError, match=r"maps of 4,?096 tokens"):
        MapArray().begin((2, 4096, 4096), mask)
