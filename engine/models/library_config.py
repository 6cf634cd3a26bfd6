"""What transformers is given of a folder that it reads: a configuration that was checked, and files that are plain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.models.bounds import bounded, without_labels
from engine.models.checkpoint import Checkpoint
from engine.models.config_file import FIELDS
from engine.models.importing import IMPORTING
from engine.models.json_file import NUMBER, OBJECT, TEXT, Kind, plain_file, read_object, shown
from engine.models.tokens import silence
from engine.values.errors import EngineError

LEFT_OUT = frozenset({"auto_map", "configuration_files"})
"""Settings that name code, or other files to read instead."""

READ = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".safetensors", ".bin")
"""How the files end that transformers may open."""

TOKENIZER_FIELDS: Mapping[str, Kind] = {
    **dict.fromkeys(("tokenizer_class", "backend", "padding_side", "truncation_side"), TEXT),
    "model_max_length": NUMBER,
    "added_tokens_decoder": OBJECT,
}
"""What fields of ``tokenizer_config.json`` hold."""

LONGEST_REASON = 300
"""Characters of what transformers says of a configuration; it may dump all of it."""

VOCABULARIES = ("tokenizer.json", "vocab.json", "added_tokens.json")
"""Files that number tokens."""

DIGITS = 8
"""Digits of a token's number that is too large: there is memory for as many tokens as the largest number says."""

_LARGE = re.compile(rb'"\s*:\s*(\d{%d,})' % DIGITS)
"""The end of a field's name, and a number of so many digits."""

CODE_NEEDED = "it needs code that comes with it, which runs only when told to: read it, then --trust-remote-code"


def library_config(directory: Path) -> Any:
    """Make the configuration of a folder's model; no code of the folder runs.

    Raises
    ------
    EngineError : when it cannot be read, transformers knows no such type, or refuses what it says.
    """
    silence()
    with IMPORTING:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    file = directory / "config.json"
    settings = read_object(file, FIELDS)
    model_type = settings.get("model_type") or ""
    if model_type not in CONFIG_MAPPING:
        if "auto_map" in settings:
            raise EngineError(CODE_NEEDED)
        if not model_type:
            raise EngineError(f"{file} has no model_type; write there what transformers calls the type")
        raise EngineError(f"{file}: model_type is {shown(model_type)}, which transformers does not know; upgrade it")
    if model_type == "mistral" and "layer_types" in settings:  # as transformers' own automatic class does
        model_type = "ministral"
    known = {name: value for name, value in without_labels(settings).items() if name not in LEFT_OUT}
    try:
        with IMPORTING:
            kind = CONFIG_MAPPING[model_type]
        return kind.from_dict(known, name_or_path=str(directory))
    except Exception as error:  # whatever a configuration's own code raises
        said = " ".join(str(error).split())[:LONGEST_REASON]
        raise EngineError(f"{file} is refused by transformers: {said}; correct it there") from error


def tokenizer_options(directory: Path, trust_remote_code: bool) -> dict[str, Any]:
    """Give what a tokenizer is loaded with in the place of the configuration that transformers would read by itself.

    Raises
    ------
    EngineError : when a file that it may read is not plain, or a field of one is wrong.
    """
    if trust_remote_code:
        return {}
    import transformers

    _check_plain(directory)
    try:
        config = library_config(directory)
    except EngineError:  # a tokenizer says itself what it is, mostly
        config = transformers.PreTrainedConfig()
    file = directory / "tokenizer_config.json"
    settings = read_object(file, TOKENIZER_FIELDS) if file.exists() else {}
    if (largest := max(map(len, settings.get("added_tokens_decoder") or ()), default=0)) >= DIGITS:
        raise EngineError(f"{file}: added_tokens_decoder has a token's number of {largest} digits; correct it there")
    for file in filter(Path.exists, map(directory.joinpath, VOCABULARIES)):
        _check_numbers(file)
    for name in (settings.get("tokenizer_class"), getattr(config, "tokenizer_class", None)):
        if str(name).startswith("Auto"):  # which chooses by this very setting, without end
            raise EngineError(f"{directory}: tokenizer_class is {shown(name)}, which is none; correct it there")
    return {"config": config}


@contextmanager
def model_options(directory: Path, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give what a model is loaded with, which becomes no larger meanwhile than its files let expect.

    Code that comes with a model, which was asked for, and GGUF files have configurations of their own.

    Raises
    ------
    EngineError : when a file is not plain, the configuration cannot be read, or, within, asks for too large a model.
    """
    if "gguf_file" in options or options.get("trust_remote_code"):
        yield dict(options)
        return
    _check_plain(directory)
    config = library_config(directory)
    is_packed = bool(getattr(config, "quantization_config", None))
    with bounded(Checkpoint(directory).entries, is_packed=is_packed):
        yield {**options, "config": config}


def _check_plain(directory: Path) -> None:
    """Make sure that transformers opens nothing but plain files of a folder.

    Raises
    ------
    EngineError : when one is something else.
    """
    for file in (*directory.iterdir(), *directory.glob("additional_chat_templates/*")):
        if file.suffix in READ:
            plain_file(file)


def _check_numbers(file: Path) -> None:
    """Make sure that a vocabulary numbers its tokens as there may be tokens; it is not parsed for that.

    Raises
    ------
    EngineError : when one has too large a number.
    """
    content = file.read_bytes()
    for found in _LARGE.finditer(content):
        if not content[max(0, found.start() - 10) : found.start()].endswith(
            (b"max_length", b"\\")
        ):  # no token's number, or within a text
            raise EngineError(
                f"{file} has the number {shown(int(found[1][:20]))}, beyond any token's; correct it there"
            )
