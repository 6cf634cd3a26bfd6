"""Around the opening screen: the list of what was opened before, paths to complete, and how times are said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from engine.service.choices import look_up
from engine.store.history import KEPT, recent_file, recent_models, remember
from tests.opening import outline
from tests.tui.painted import NASTY
from tui.drawing import text
from tui.drawing.text import clusters, harmless, path_within
from tui.screens.model_list import ago
from tui.status_line import describe, duration


@pytest.mark.parametrize(
    "content", ["", "{", "[1, {}, null]", '{"name": 1}', '[{"name": 3}, {"name": " "}]', "[" * 100_000, "\0"]
)
def test_a_damaged_list_counts_as_empty_and_is_written_anew(content: str) -> None:
    recent_file().parent.mkdir(parents=True)
    recent_file().write_text(content)
    assert recent_models() == ()
    remember("a", outline("a"))
    assert [model.name for model in recent_models()] == ["a"]


def test_the_list_is_short_has_every_model_once_and_takes_what_it_understands() -> None:
    for number in range(KEPT + 5):
        remember(f"m{number}", outline("m"))
    remember("m20", outline("m"))
    names = [model.name for model in recent_models()]
    assert names[:3] == ["m20", "m34", "m33"]
    assert len(names) == len(set(names)) == KEPT == len(json.loads(recent_file().read_text()))
    recent_file().write_text('[{"name": "x", "size": "large", "layers": -1, "last_used": "never", "model_type": "t"}]')
    (model,) = recent_models()
    assert (model.name, model.size, model.layers, model.last_used, model.model_type) == ("x", 0, 0, 0.0, "t")


@pytest.mark.skipif(os.geteuid() == 0 and not os.access("/proc/version", os.R_OK), reason="needs a place to fail")
def test_a_place_that_cannot_be_written_to_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/version")
    remember("a", outline("a"))
    assert recent_models() == ()


def test_paths_are_completed_to_folders_and_model_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("models", ".hidden"):
        (tmp_path / name).mkdir()
    for name in ("mine.gguf", "mine.txt", "m.safetensors", "m.pt"):
        (tmp_path / name).touch()
    assert look_up("m").completions == ("m.pt", "m.safetensors", "mine.gguf", "models/")
    assert look_up("./mo").completions == ("./models/",)
    assert look_up(".h").completions == (".hidden/",)
    assert look_up(f"{tmp_path}/m.").completions == (f"{tmp_path}/m.pt", f"{tmp_path}/m.safetensors")
    assert [look_up(text).kind for text in ("models", "m.pt", "x", "\0", "~nobody/x")] == ["folder", "file", "", "", ""]
    assert look_up("m.pt").model == ""
    (tmp_path / "models" / "inner").mkdir()
    for name in ("config.json", "model.safetensors", "whole.gguf"):
        (tmp_path / "models" / name).touch()
    assert look_up("models/").completions == ("models/inner/", "models/whole.gguf")
    assert look_up("models/m").completions == ()
    assert look_up("models/model.safetensors").model == "models/"
    assert look_up("models/whole.gguf").model == look_up("models").model == ""
    assert look_up("models/config.json").model == "models/"
    assert look_up("~").completions == ("~/",)
    monkeypatch.chdir(tmp_path / "models")
    assert look_up("model.safetensors").model == "./"
    described = look_up("model.safetensors", is_described=True)
    assert (described.model, described.completions) == ("", ("model.safetensors",))


def test_times_are_written_no_finer_than_they_are_known() -> None:
    assert [duration(seconds) for seconds in (0.2, 9.2, 11, 88, 91, 3540, 3601, 7500)] == [
        "1 s", "10 s", "15 s", "90 s", "2 min", "59 min", "1 h 1 min", "2 h 5 min"
    ]  # fmt: skip
    assert [ago(seconds) for seconds in (3, 61, 7300, 86_400, 200_000)] == [
        "just now", "1 min ago", "2 h ago", "1 day ago", "2 days ago"
    ]  # fmt: skip
    from engine.values.progress import Progress

    assert describe(Progress("downloading x", 5_000_000, 20_000_000, "bytes", 1e6, "file 2 of 3")) == (
        "downloading x  5.0 / 20.0 MB · 1.0 MB/s · 15 s left · file 2 of 3"
    )
    assert describe(Progress("asking the Hub for x", 0, 0, "")) == "asking the Hub for x …"


@pytest.mark.parametrize("name", ["/a/folder/of/models", "gpt2", *NASTY, "".join(NASTY)])
@pytest.mark.parametrize("width", [0, 1, 2, 9, 60])
def test_of_a_long_name_as_much_of_its_end_is_shown_as_there_is_room_for(name: str, width: int) -> None:
    whole, found = harmless(name), path_within(name, width)
    if cell_len(whole) <= width:
        assert found == whole
        return
    parts = [part for part, _ in clusters(whole)]
    ends = ["".join(parts[start:]) for start in range(len(parts) + 1)]
    assert found == "…"[:width] + next(end for end in ends if cell_len(end) <= max(width - 1, 0))


def test_a_long_text_pasted_for_a_name_is_not_measured_once_for_every_character(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[int] = []

    def counting(part: str) -> int:
        measured.append(len(part))
        return cell_len(part)

    monkeypatch.setattr(text, "cell_len", counting)
    assert path_within("日本 " * 3000, 60).endswith("日本 ")
    assert sum(measured) < 2000
