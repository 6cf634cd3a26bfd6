"""Every mistake of a person, and every file that does not fit, has one clear line on standard error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.conftest import TinyModel
from tests.engine.checkpoints.test_adapters import adapter_of
from tests.exporting import attn_tui, exported, refusal
from tests.opening import with_config
from tests.terminal import COMMAND, Terminal


def test_the_explorer_refuses_a_missing_model_and_restores_the_terminal() -> None:
    with Terminal(COMMAND, "nobody/no-such-model") as terminal:
        assert terminal.exit_code(10.0) == 1
        assert terminal.output.count(b"\x1b[?1049h") == terminal.output.count(b"\x1b[?1049l") == 1
        after = terminal.output.rpartition(b"\x1b[?1049l")[2].decode()
    assert "attn-tui: nobody/no-such-model is not in the local cache" in after
    assert "Traceback" not in after


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("./nowhere", "there is no folder"),
        ("~nobody-is-called-so/model", "home folder of an unknown user"),
        (__file__, "is a file"),
    ],
)
def test_what_is_no_folder_of_a_model_is_named(model: str, said: str) -> None:
    assert said in refusal(model, "ranks")


@pytest.mark.parametrize(("missing", "said"), [("config.json", "no config.json"), ("model.safetensors", "no weights")])
def test_a_folder_without_configuration_or_weights(tiny_copy: TinyModel, missing: str, said: str) -> None:
    folder = tiny_copy("gpt2")
    (folder / missing).unlink()
    assert said in refusal(folder, "ranks")


def test_a_models_own_code_is_not_run_and_the_option_is_named(tiny_copy: TinyModel) -> None:
    own = {"AutoConfig": "own.Config", "AutoModel": "own.Model"}
    folder = with_config(tiny_copy("llama"), model_type="xllama", auto_map=own)
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n", encoding="utf-8")
    assert "--trust-remote-code; its spectra still work" in refusal(folder, "attention", "--text", "hi")
    assert not (folder / "ran").exists()


def test_shards_without_their_index(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    said = f"{folder} has model-00001-of-00002.safetensors and no model.safetensors.index.json"
    assert said in refusal(folder, "ranks")


def test_the_tokenizer_of_another_model(tiny_copy: TinyModel) -> None:
    said = refusal(tiny_copy("gpt2", vocab_size=6), "attention", "--text", "The cat")
    assert re.search(r"'The' is token \d+, and \S+ has 6 tokens: its folder holds another model's tokenizer", said)


def test_a_model_without_attention(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    save_file({"backbone.layers.0.mixer.in_proj.weight": torch.ones(4, 4)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "mamba"}', encoding="utf-8")
    assert "models of type 'mamba'" in refusal(folder, "ranks")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("ranks", "--head", "L7H0"), "no attention in layer 7"),
        (("ranks", "--head", "L0H9"), "no head L0H9: the layer has heads 0 to 3"),
        (("ranks", "--layer", "5"), "no attention in layer 5"),
        (("ranks", "--head", "banana"), "'banana' is not a head; write it as L5H1 or 5.1"),
        (("ranks", "--stack", "encoder"), "no stack 'encoder'; choose from decoder"),
        (("ranks", "--device", "cuda:99", "--no-cache"), "cuda:99"),
        (("attention", "--text", "  "), "the sentence is empty"),
    ],
)
def test_what_the_model_or_machine_does_not_have(tiny_model: TinyModel, options: tuple[str, ...], said: str) -> None:
    assert said in refusal(tiny_model("llama"), *options)


def test_a_sentence_longer_than_the_context_is_cut_with_a_notice(tiny_model: TinyModel, tmp_path: Path) -> None:
    file, model = tmp_path / "maps.csv", tiny_model("gpt2", with_head=True)
    text = ("--text", "the cat " * 200)
    done = attn_tui("export", model, "attention", *text, "--head", "0.0", "-o", file)
    assert done.returncode == 0
    assert "the model reads the first 64" in done.stderr
    assert file.read_text(encoding="utf-8").count("\n") == 1 + 64 * 64
    for view in ("predictions", "lens", "contributions", "ablation", "explain", "rollout", "heads"):
        done = attn_tui("export", model, view, *text)
        assert done.stderr.count("the model reads the first 64") == 1, view


@pytest.mark.parametrize("place", ["nowhere/ranks.csv", "."])
def test_an_output_path_that_cannot_be_written(tiny_model: TinyModel, tmp_path: Path, place: str) -> None:
    line = refusal(tiny_model("llama"), "ranks", "-o", tmp_path / place)
    assert str(tmp_path) in line
    assert list(tmp_path.glob("*.part")) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("ranks", "--text", "x"), "--text does not apply to ranks"),
        (("ranks", "--energy", "2"), "between 0 and 1"),
        (("ranks", "--device", "toaster"), "give auto, cpu, cuda"),
        (("ranks", "--layer", "1", "--head", "L0H0"), "name different layers"),
        (("ranks", "--head", "mean"), "only attention has means"),
        (("circuits", "--distance", "-1"), "--distance"),
        (("directions", "--matrix", "Q"), "QK or OV"),
        (("composition", "-o", "x.npz"), "composition is a table"),
        (("ablation", "--text", "hi", "--off", "L1H0", "--head", "L1H1"), "--off already names the heads"),
        (("ranks", "--where"), "Option '--where' requires an argument"),
        (("weights", "--where", "norm > 1"), "only with --norms"),
        (("nonsense",), "nonsense"),
    ],
)
def test_wrong_usage_exits_with_two(tiny_model: TinyModel, options: tuple[str, ...], said: str) -> None:
    assert said in refusal(tiny_model("llama"), *options, code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo", "--foo"], "No such option"),
        (["export", "demo"], "Missing argument 'VIEW'"),
        (["demo", "--energy", "3"], "Invalid value for '--energy'"),
        (["demo", "--theme", "pink"], "Invalid value for '--theme': there is no theme 'pink'; "),
    ],
)
def test_wrong_usage_says_what_is_wrong_and_where_to_read_on(words: list[str], said: str) -> None:
    done = attn_tui(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Error: {said}" in done.stderr
    assert re.search("Try 'attn-tui( export)? --help' for help", done.stderr)


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


def test_a_pattern_of_an_adapter_may_be_an_expression(tiny_model: TinyModel, tmp_path: Path) -> None:
    tables = [
        exported(adapter_of(tiny_model("llama"), tmp_path / name, **settings), "ranks", "--no-cache")
        for name, settings in (("all", {"lora_alpha": 12}), ("own", {"alpha_pattern": {"(q|k)_proj": 12, ".*": 1}}))
    ]
    assert tables[0] == tables[1] != []
