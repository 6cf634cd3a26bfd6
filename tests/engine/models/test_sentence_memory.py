"""The memory for a sentence is known before a model is loaded or a map is made, and what does not fit is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.checkpoints.locate import locate
from engine.checkpoints.source import FolderSource
from engine.models import attention_maps
from engine.values import memory
from engine.values.memory import ACROSS_DEVICES, FreeMemory, Placement, SentenceNeed, place_sentence
from tests.conftest import TinyModel
from tests.engine.models.test_attention import SENTENCE
from tests.exporting import refusal
from tests.opening import no_hurry, open_reader, refused, run_apart
from tests.sparse_checkpoints import SHAPES, Shape, write_checkpoint
from tests.tui.explorer import explorer, press, screen_text, settle

GB = 10**9
PLAIN = SentenceNeed(26 * GB, 26 * GB, GB // 10, "bfloat16", "")
CONVERTED = SentenceNeed(52 * GB, 0, GB // 10, "float32", "auto")


def placed(
    need: SentenceNeed,
    device: str = "cpu",
    free: int | None = 0,
    others: tuple[int, ...] = (),
    main: int | None = 8 * GB,
    *,
    may_spread: bool = True,
    has_accelerate: bool = True,
) -> Placement:
    """Place a model of 13 billion parameters."""
    cpu = FreeMemory("cpu", main)
    chosen = cpu if device == "cpu" else FreeMemory(device, free)
    gpus = [FreeMemory(f"cuda:{number}", each) for number, each in enumerate(others, start=1)]
    return place_sentence("big", need, chosen, gpus, cpu, may_spread=may_spread, has_accelerate=has_accelerate)


@pytest.mark.parametrize(
    ("placement", "device", "notice"),
    [
        (placed(PLAIN, main=30 * GB), "cpu", ""),
        (placed(PLAIN, "cuda", 27 * GB), "cuda", ""),
        (placed(PLAIN, "mps", 27 * GB), "mps", ""),
        (placed(CONVERTED, main=60 * GB), "cpu", ""),
        (placed(PLAIN, "cuda", 16 * GB, (16 * GB,)), ACROSS_DEVICES, ""),
        (placed(PLAIN, "cuda", 24 * GB), ACROSS_DEVICES, ""),
        (placed(PLAIN, main=20 * GB), "cpu", "26 GB of weights are read from disk for every sentence"),
        # Nothing says what is free.
        (placed(PLAIN, main=None), "cpu", ""),
        (placed(CONVERTED, main=None), "cpu", ""),
        (placed(PLAIN, "mps", None, main=None), "mps", ""),
        (placed(CONVERTED, "mps", None, main=None), "mps", ""),
    ],
)
def test_a_model_goes_where_it_was_wanted_or_over_all_devices(placement: Placement, device: str, notice: str) -> None:
    assert (placement.device, placement.refusal, placement.notice) == (device, "", notice)


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        (placed(PLAIN, main=10 * GB), "26 GB to read a sentence (bfloat16), 10 GB are free in main memory"),
        (placed(CONVERTED, main=40 * GB), "52 GB to read a sentence (float32), 40 GB are free in main memory; its "
         "spectra still work; for attention try --dtype auto or a machine with more memory"),
        (placed(PLAIN, main=10 * GB, may_spread=False),
         "; for attention try --device auto or a machine with more memory"),
        (placed(CONVERTED, "cuda", 80 * GB, main=40 * GB), "40 GB are free on cpu, where it is loaded first"),
        (placed(PLAIN, "cuda", 16 * GB), "16 GB are free on cuda"),
        (placed(PLAIN, "cuda", 16 * GB), "--device cpu"),
        # A GPU that was named is the only one.
        (placed(PLAIN, "cuda:1", 16 * GB, (80 * GB,), may_spread=False), "16 GB are free on cuda:1"),
        (placed(PLAIN, "cuda", 16 * GB, (16 * GB,), has_accelerate=False), "pip install accelerate"),
    ],
)  # fmt: skip
def test_a_model_that_does_not_fit_is_refused_with_the_next_step(placement: Placement, said: str) -> None:
    assert said in placement.refusal


def test_what_a_checkpoint_needs_is_counted_from_its_headers(tmp_path: Path) -> None:
    shape = Shape(2, 256, 4, 2, 512, 1000, 2)
    source = FolderSource(locate(str(write_checkpoint(tmp_path / "tiny", shape, filled=()))))
    layer = 2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256 + 2 * 256
    parameters = 2 * 1000 * 256 + 256 + 2 * layer
    assert source.anatomy.outline.parameters == parameters
    assert source.anatomy.outline.stored_bytes == 2 * parameters
    need = source.sentence_need("auto")
    assert (need.weights, need.mapped, need.smaller) == (2 * parameters, 2 * parameters, "")
    assert need.maps == 4 * 512**2 * (2 + 4)
    wide = source.sentence_need("float32")
    assert (wide.weights, wide.mapped, wide.smaller) == (4 * parameters, 0, "auto")


def test_the_free_memory_is_what_linux_calls_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info, container = tmp_path / "meminfo", tmp_path / "cgroup"
    container.mkdir()
    info.write_text("MemTotal:       100 kB\nMemFree:    10 kB\nMemAvailable:   80 kB\n")
    monkeypatch.setattr(memory, "MEMORY_INFO", info)
    monkeypatch.setattr(memory, "CONTAINER", container)
    assert memory.free_memory() == 80 * 1024
    (container / "memory.max").write_text("max\n")
    (container / "memory.current").write_text("50000\n")
    (container / "memory.stat").write_text("anon 1\ninactive_file 20000\n")
    assert memory.free_memory() == 80 * 1024
    (container / "memory.max").write_text("60000\n")
    assert memory.free_memory() == 30000


async def test_the_pane_says_why_no_sentence_is_read_and_reads_it_when_there_is_room(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    async with explorer(tiny_model("llama"), head="L0H0", size=(160, 50)) as (app, pilot):
        await press(pilot, "3")
        pane = app.views.attention
        assert "1.0 kB are free in main memory" in pane.message
        app.main.read(SENTENCE)
        await settle(pilot)
        assert "to read a sentence (float32), 1.0 kB are free in main memory; its spectra still work" in pane.message
        for word in ("(float32),", "1.0", "--dtype", "bfloat16", "σ₁"):  # the folder's name decides where lines break
            assert word in screen_text(app).split()
        monkeypatch.undo()
        app.main.read(SENTENCE)
        await settle(pilot)
        assert pane.heatmap.pooled is not None


async def test_the_models_page_shows_what_a_sentence_takes(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), size=(160, 50)) as (app, pilot):
        app.session.change(selected=None)
        await settle(pilot)
        said = screen_text(app)
        assert "in 1 file" in said
        assert "looking at a layer reads 12 kB" in said
        await press(pilot, "3")
        assert app.views.attention.message == "press i and type a sentence"
        whole = app.views.spectra.graph._message  # without the screen's line breaks
        assert "a sentence of 64 tokens takes" in whole
        assert "of weights as float32" in whole
        assert "are free on cpu" in whole
        assert "are free" in said


def test_the_command_refuses_with_the_same_message(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "405b", SHAPES["405b"], filled=())
    line = refusal(folder, "attention", "--text", SENTENCE, "--device", "cpu", "--dtype", "float32")
    assert "needs 1.6 TB to read a sentence (float32)" in line
    assert "its spectra still work" in line


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
from engine.checkpoints.locate import locate
from engine.checkpoints.source import FolderSource
from engine.models.model_loader import load_reader

def status(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) * 1024

rest = lambda: None
reader, text = load_reader(FolderSource(locate(sys.argv[1])), "cpu", "auto"), " ".join(["cat dog"] * 2000)
reader.read("1 2 3", rest)
first, *_, last = reader.modules
reader.layer_maps(first)  # loads what is loaded once
found = []
for work in (lambda: reader.read(text, rest), lambda: reader.layer_maps(last), lambda: reader.layer_maps(last.stack)):
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    made = work()
    found.append((status("VmHWM") - before) / (8 * 2048**2 * 4))
assert made.weights.shape == (8, 2048, 2048)
print(json.dumps(found))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a while")
def test_reading_and_maps_take_no_more_memory_than_one_layers_maps(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama", max_position_embeddings=2048, num_attention_heads=8, num_key_value_heads=8)
    # With a fixed threshold freed memory goes back to the system, so that no work uses what another has freed.
    found = run_apart(PEAKS, folder, OMP_NUM_THREADS="1", MALLOC_MMAP_THRESHOLD_="131072")
    assert all(share < 1.3 for share in json.loads(found)), found
