"""Files that do not fit together are refused in one line, at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests import exporting
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_adapters import adapter_of
from tests.exporting import exported
from tests.opening import with_config


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


def test_a_configuration_of_other_weights_is_refused(tiny_copy: TinyModel) -> None:
    said = "its tensors do not have the shapes that config.json gives"
    assert said in refusal(*attention(with_config(tiny_copy("llama"), vocab_size=100_000)))


def test_a_token_number_that_there_is_no_token_of_is_refused(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    assert "has no token" in refusal(*attention(folder, "5 99999999999999999999999"))


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("config.json", {"num_attention_heads": {"a": 4}}, "config.json does not say how many heads there are"),
        ("config.json", {"layer_types": 5}, "config.json has settings that attn-tui cannot read"),
        ("config.json", {"hidden_act": {}}, "Validation error for field 'hidden_act'"),
        ("tokenizer_config.json", {"model_max_length": "x"}, "tokenizer"),
    ],
)
def test_a_field_of_another_type_is_named_with_its_file(
    name: str, settings: dict[str, Any], said: str, tiny_copy: TinyModel
) -> None:
    assert said in refusal(*attention(with_config(tiny_copy("llama"), name, **settings)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "not readable JSON"),
        (b"\xff\xfe", "not readable JSON"),
        (b"[]", "holds no JSON object"),
    ],
    ids=["lists in lists", "bytes", "a list"],
)
def test_a_file_that_is_no_such_file_is_refused(content: bytes, said: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    (folder / "config.json").write_bytes(content)
    assert f"config.json {said}" in refusal(folder, "ranks").replace(" is ", " ")


@pytest.mark.parametrize(
    ("patterns", "said"),
    [({"(": 8}, "which is not a regular expression"), (5, "has settings that attn-tui cannot read")],
    ids=["no expression", "a number"],
)
def test_wrong_patterns_of_an_adapter_are_named(
    patterns: object, said: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = adapter_of(tiny_model("llama"), tmp_path / "adapter", alpha_pattern=patterns)
    assert said in refusal(folder, "ranks")


@pytest.mark.parametrize("pattern", ["self_attn.q_proj", "(q|k)_proj"])
def test_patterns_of_an_adapter_are_names_or_expressions(pattern: str, tiny_model: TinyModel, tmp_path: Path) -> None:
    folders = [
        adapter_of(tiny_model("llama"), tmp_path / name, **settings)
        for name, settings in (("all", {"lora_alpha": 12}), ("own", {"alpha_pattern": {pattern: 12, ".*": 1}}))
    ]
    tables = [exported(folder, "ranks", "--no-cache") for folder in folders]
    assert tables[0] == tables[1] != []
