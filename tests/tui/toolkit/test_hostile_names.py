"""Nothing in a model's files controls the terminal, told by the bytes that a pseudo-terminal is sent.

Names of types, tensors, tokens, files and folders are whatever somebody wrote there: here what writes to the clipboard,
names the window, asks the terminal for an answer, turns the direction of writing, and begins another line.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tests.conftest import TinyModel
from tests.exporting import attn_tui, written
from tests.opening import with_config
from tests.terminal import COMMAND, FIRST_HEAD, PATIENCE, Terminal

HOSTILE = "\x1b]52;c;aGk=\x07\x1b]0;pwned\x07\x1b[5n\x9b5n\x9d0;pwned\x9c\u202eback\x7f\x01\rover\nend"

ESCAPED = r"\x1b]52;c;aGk=\x07\x1b]0;pwned\x07\x1b[5n\x9b5n\x9d0;pwned\x9c\u202eback\x7f\x01"
"""Its beginning as it is written on a terminal."""

OWN = re.compile(r"\x1b\[[?<>]?[\d;]*(?:\$p|[GHhlmu])|\x1b\]22;\w*\x07|[\t\n\r]")
"""What the program itself sends: cursor, style, modes, the pointer's shape."""

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def foreign(output: bytes, own: re.Pattern[str] = OWN) -> list[str]:
    """List what could control a terminal and is not the program's own, each with what follows it."""
    text = own.sub("", output.decode("utf-8", errors="replace"))
    return [text[found.start() : found.start() + 12] for found in CONTROLS.finditer(text)]


IN_LINES = re.compile(r"[\t\n\r]")
"""What a command sends that draws no screen."""


@pytest.fixture
def hostile(tiny_model: TinyModel, tmp_path: Path) -> Path:
    """Make a model that opens and runs, in whose files every name is hostile but that of its type."""
    folder = tmp_path / f"m{HOSTILE}"
    shutil.copytree(tiny_model("llama", with_head=True), folder)
    tensors = load_file(folder / "model.safetensors") | {f"a{HOSTILE}": torch.ones(2, 2)}
    (folder / "model.safetensors").unlink()
    shard = f"model{HOSTILE}.safetensors"
    save_file(tensors, folder / shard, {"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, shard)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    words = {f"{HOSTILE}{number}": number for number in range(300)} | {"the": 300, "cat": 301}
    tokenizer = Tokenizer(WordLevel(words, unk_token=f"{HOSTILE}7"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def of_unknown_type(hostile: Path) -> Path:
    return with_config(hostile, model_type=f"type{HOSTILE}", architectures=[f"Class{HOSTILE}"])


def damaged(hostile: Path) -> Path:
    file = hostile / f"model{HOSTILE}.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    return hostile


def adapter(hostile: Path) -> Path:
    """Make an adapter of a model, with one factor that is missing."""
    folder = hostile.with_name(f"adapter{HOSTILE}")
    folder.mkdir()
    settings = {"peft_type": "LORA", "base_model_name_or_path": str(hostile), "r": 3, "lora_alpha": 6}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    name = f"base_model.model.model.layers.1.self_attn.q_proj{HOSTILE}.lora_A.weight"
    save_file({name: torch.ones(3, 32)}, folder / "adapter_model.safetensors")
    return folder


EACH = """
import json, os, sys, transformers.modeling_utils
from tui.entry import main
for words in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        sys.argv = ["attn-tui", *words]
        main()
    print("left with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Runs one command after the other with what is imported once."""


def test_what_a_command_writes_to_a_terminal_is_text(hostile: Path, tmp_path: Path) -> None:
    broken = [
        breaks(Path(shutil.copytree(hostile, tmp_path / breaks.__name__ / hostile.name)))
        for breaks in (of_unknown_type, damaged, adapter)
    ]
    commands = (
        ("export", str(hostile), "weights"),
        ("export", str(hostile), "weights", "--format", "jsonl"),
        ("export", str(hostile), "predictions", "--text", "the dog"),
        ("check", str(hostile)),
        *(("check", str(each)) for each in broken),
    )
    with Terminal(sys.executable, "-c", EACH, json.dumps(commands), columns=200) as terminal:
        assert terminal.exit_code(PATIENCE) == 0
        assert foreign(terminal.output, IN_LINES) == []
        *exported, checked, refused = terminal.text().split("left with 0")
        assert ["]52;c;aGk=" in each for each in exported] == [True] * 3
        assert "heads" in checked
        *refusals, rest = refused.split("left with 1")
        assert [ESCAPED in each for each in refusals] == [True] * 3
        assert rest.strip() == ""


def test_what_a_command_writes_to_a_file_is_every_byte(hostile: Path, tmp_path: Path) -> None:
    done = attn_tui("export", hostile, "weights", "-o", tmp_path / "named.csv")
    assert foreign(done.stderr.encode(), IN_LINES) == []
    with (tmp_path / "streamed.csv").open("wb") as stream:
        subprocess.run([COMMAND, "export", str(hostile), "weights"], check=True, stdout=stream)
    for file in ("named.csv", "streamed.csv"):
        assert f"a{HOSTILE}" in [row["name"] for row in written(tmp_path, file)]


@pytest.mark.parametrize("changed", [Path, of_unknown_type])
def test_the_explorer_sends_only_its_own_control_sequences(hostile: Path, changed: Callable[[Path], Path]) -> None:
    arguments = (str(changed(hostile)), "--text", "the dog")
    with Terminal(COMMAND, *arguments, columns=160, rows=50) as terminal:
        terminal.wait_for(FIRST_HEAD)
        for keys in ("2", "3", "l", ":predictions\r", ":weights\r", ":check\r", "?", "\x1b", "e", "\x1b", "B", "\x1b"):
            terminal.send(keys)
            terminal.settle()
        terminal.send("1")  # which a busy program may read as one with escape; it must not be the key that quits
        terminal.settle()
        terminal.send("\x11")  # ctrl+q quits from the list of models, too, if escape came before it was there
        assert terminal.exit_code() == 0
        assert foreign(terminal.output) == []
        assert "]52;c;aGk=" in terminal.text(), "the name is shown"
