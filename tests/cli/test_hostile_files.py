"""Files that ask for too much or lead elsewhere are refused in one line, at once, without memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import exporting
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.mutations import write_adapter_of
from tests.opening import with_config

HUGE = 10**9

SAMPLE = ("gpt2", "llama", "bert", "t5")
"""Architectures whose folders are mutated here; by hand, `tests.mutations` takes more."""


def refusal(*arguments: str | Path) -> str:
    """Give the one line that refuses a request at little cost."""
    import transformers.modeling_utils  # noqa: F401  # most of what a first command takes

    begin = time.process_time()
    line = exporting.refusal(*arguments)
    assert time.process_time() - begin < 10
    assert len(line) < 1100
    assert "unexpected" not in line
    return line


def attention(folder: Path, text: str = "The cat") -> tuple[str | Path, ...]:
    """Ask for the maps of a sentence."""
    return folder, "attention", "--text", text


@pytest.mark.parametrize(
    ("model_type", "settings", "said"),
    [
        ("llama", {"num_hidden_layers": HUGE}, "num_hidden_layers is 1000000000, not a whole number of at most"),
        ("llama", {"num_key_value_heads": 10**6}, "a model of more than"),
        ("llama", {"vocab_size": 10**6}, "its tensors do not have the shapes that config.json gives"),
        ("mixtral", {"num_local_experts": 10**6}, "but its files hold"),
    ],
)
def test_a_configuration_larger_than_the_weights_is_refused_with_both_numbers(
    model_type: str, settings: dict[str, Any], said: str, tiny_copy: TinyModel
) -> None:
    assert said in refusal(*attention(with_config(tiny_copy(model_type), **settings)))


def test_a_token_number_that_there_is_no_token_of_is_refused(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    assert "has no token" in refusal(*attention(folder, "5 99999999999999999999999"))


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("config.json", {"num_attention_heads": {"a": 4}}, 'config.json: num_attention_heads is {"a": 4}, not a whole'),
        ("config.json", {"rope_parameters": {"rope_type": 5}}, "config.json: rope_parameters.rope_type is 5, not a"),
        ("config.json", {"hidden_act": {}}, "config.json is refused by transformers"),
        ("tokenizer_config.json", {"model_max_length": "x"}, "tokenizer_config.json: model_max_length is"),
    ],
)
def test_a_field_of_another_type_is_named_with_its_file(
    name: str, settings: dict[str, Any], said: str, tiny_copy: TinyModel
) -> None:
    assert said in refusal(*attention(with_config(tiny_copy("llama"), name, **settings)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested more than"),
        (b" " * 2**26, "larger than 32 MB"),
        (b'{"model_type": ' + b"1" * 5000 + b"}", "not readable JSON"),
        (b"\xff\xfe", "not readable JSON"),
        (b"[]", "holds no JSON object"),
    ],
    ids=["lists in lists", "spaces", "digits", "bytes", "a list"],
)
def test_a_file_that_is_no_such_file_is_refused(content: bytes, said: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    (folder / "config.json").write_bytes(content)
    assert f"config.json {said}" in refusal(folder, "ranks").replace(" is ", " ")


@pytest.mark.parametrize("aim", ["/dev/zero", "../other/model.safetensors"])
def test_an_index_that_names_files_elsewhere_is_refused(aim: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    index = {"weight_map": {"model.embed_tokens.weight": aim}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert f'lists "{aim}", which is not in its folder' in refusal(folder, "ranks")


def test_a_weight_file_that_is_a_link_out_of_the_folder_is_refused(tiny_copy: TinyModel, tmp_path: Path) -> None:
    folder = tiny_copy("llama")
    file = (folder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    (folder / "model.safetensors").symlink_to(file)
    assert "model.safetensors points outside the model's folder" in refusal(folder, "ranks")


@pytest.mark.parametrize("name", ["tokenizer.json", "merges.txt"])
def test_a_pipe_instead_of_a_file_is_refused_without_waiting(name: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert f"{name} is not a regular file" in refusal(*attention(folder))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(?:(?:.|..)+)+(?<=o)", "takes too long to match"),
        ("(", "which is not a regular expression"),
    ],
)
def test_patterns_of_an_adapter_are_bounded(pattern: str, said: str, tiny_model: TinyModel, tmp_path: Path) -> None:
    folder = write_adapter_of(tiny_model("llama"), tmp_path / "adapter", alpha_pattern={pattern: 8})
    assert said in refusal(folder, "ranks")


@pytest.mark.parametrize("pattern", ["self_attn.q_proj", "(q|k)_proj"])
def test_patterns_of_an_adapter_are_names_or_expressions(pattern: str, tiny_model: TinyModel, tmp_path: Path) -> None:
    folders = [
        write_adapter_of(tiny_model("llama"), tmp_path / name, **settings)
        for name, settings in (("all", {"lora_alpha": 12}), ("own", {"alpha_pattern": {pattern: 12, ".*": 1}}))
    ]
    tables = [exported(folder, "ranks", "--no-cache") for folder in folders]
    assert tables[0] == tables[1] != []


def test_mutated_folders_are_refused_fast_in_little_memory_and_one_line() -> None:
    command = [sys.executable, "-m", "tests.mutations", "--count", "50", "--seed", "sample", "--types", *SAMPLE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
