"""The JSON files of a model: regular files in its folder, of bounded size and depth, with fields of known types."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.architectures.configuration import (
    CONTEXT_KEYS,
    HEAD_COUNT_KEYS,
    HEAD_DIM_KEYS,
    LAYER_COUNT_KEYS,
    SLIDING_HEAD_COUNT_KEYS,
    head_count,
    layer_count,
)
from engine.values.errors import EngineError
from engine.values.heads import Head

LARGEST = 2**25
"""Bytes that such a file may have; the longest known ones, indices of 100,000 tensors, have half as many."""

DEEPEST = 64
"""Levels that objects and lists may be nested; known files have fewer than ten."""

CACHED = "models--"
"""The prefix of folders in the Hub's cache; the parts of the model's name follow, joined by ``--``."""

LONGEST_SHOWN = 40
"""Characters of a refused value that a message shows."""

MOST_LAYERS = 10_000
"""Layers that a configuration may have; transformers makes lists of as many."""


@dataclass(frozen=True)
class FieldType:
    """The type of a field; ``null`` is always allowed.

    Attributes
    ----------
    name : as a message gives it, with its article.
    types : the Python types of the value.
    inner : the types of the values in a list or an object; empty allows any.
    longest, largest : characters that a text may have, and the largest whole number, by default a tensor's.
    """

    name: str
    types: tuple[type, ...]
    inner: tuple[type, ...] = ()
    longest: int = 255
    largest: int = 2**63 - 1

    def fits(self, value: Any) -> bool:
        """Return whether a value is of this kind."""
        if value is None:
            return True
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return self._is_of(value, self.types) and (not self.inner or all(self._is_of(x, self.inner) for x in inside))

    def _is_of(self, value: Any, types: tuple[type, ...]) -> bool:
        if isinstance(value, bool):  # a kind of int in Python
            return bool in types
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, int) and float not in types and abs(value) > self.largest:
            return False
        return isinstance(value, types) and not (isinstance(value, str) and len(value) > self.longest)


FLAG = FieldType("true or false", (bool, int))
WHOLE = FieldType("a whole number", (int,))
LAYERS = FieldType(f"a whole number of at most {MOST_LAYERS:,}", (int, dict), (int,), largest=MOST_LAYERS)
COUNT = FieldType("a whole number, or a list of them", (int, list), (int, list, type(None)))
WHOLES = FieldType("a list of whole numbers", (list,), (int,))
NUMBER = FieldType("a number", (int, float))
TEXT = FieldType("a short text", (str,))
TEXTS = FieldType("a list of short texts", (list,), (str,))
PATH = FieldType("a path", (str,), longest=4096)
OBJECT = FieldType("an object", (dict,))
OBJECTS = FieldType("an object of objects", (dict,), (dict, type(None)))
OBJECT_OF_TEXTS = FieldType("an object of short texts", (dict,), (str,))
OBJECT_OF_WHOLES = FieldType("an object of whole numbers", (dict,), (int,))
OBJECT_OF_NUMBERS = FieldType("an object of numbers", (dict,), (int, float))


def plain_file(file: Path, folder: Path | None = None) -> Path:
    """Check that a path is a regular file inside a model's folder, or among the blobs of its repository's cache.

    The folder is by default the one that holds the file. Raises `EngineError` when the file does not exist, is a pipe,
    a device or a folder, or leads out of the folder.
    """
    folder = (folder or file.parent).resolve()
    blobs = [folder.parent.parent / "blobs"] if folder.parent.parent.name.startswith(CACHED) else []
    try:
        aim = file.resolve(strict=True)
        is_plain = aim.is_file()
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "its symbolic link is circular"
        raise EngineError(f"{file} is not readable: {why}; download or save the model again") from error
    if not is_plain:
        raise EngineError(f"{file} is not a regular file; download or save the model again")
    if not any(aim.is_relative_to(each) for each in (folder, *blobs)):
        raise EngineError(f"{file} points outside the model's folder; copy the file into the folder")
    return file


def read_object(file: Path, fields: Mapping[str, FieldType]) -> dict[str, Any]:
    """Read a JSON file of a model and check the types of known fields, at any depth.

    Raises `EngineError` when it cannot be read, or a field has another type, naming both.
    """
    plain_file(file)
    try:
        with file.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except OSError as error:
        raise EngineError(f"{file} is not readable: {error.strerror}; download or save the model again") from error
    return parse_object(raw, fields, str(file))


def parse_object(raw: bytes, fields: Mapping[str, FieldType], where: str) -> dict[str, Any]:
    """Parse and check the bytes of ``where``, as `read_object` does."""
    again = "download or save the model again"
    if len(raw) > LARGEST:
        raise EngineError(f"{where} is larger than {LARGEST >> 20} MB, too large for such a file; {again}")
    try:
        content = json.loads(raw.decode("utf-8"), object_hook=_number_or_object)
        if not isinstance(content, dict):
            raise EngineError(f"{where} holds no JSON object; {again}")
        left: list[tuple[tuple[str, ...], Any]] = [((), content)]
        while left:
            path, value = left.pop()
            if len(path) > DEEPEST:
                raise RecursionError
            if path and (kind := fields.get(path[-1])) is not None and not kind.fits(value):
                name = _shorten(".".join(filter(None, path)))
                raise EngineError(f"{where}: {name} is {value_text(value)}, not {kind.name}; correct it there")
            if isinstance(value, dict):
                left += [((*path, name), each) for name, each in value.items()]
            elif isinstance(value, list):
                left += [((*path, ""), each) for each in value if isinstance(each, (dict, list))]
    except RecursionError as error:
        raise EngineError(
            f"{where} is nested more than {DEEPEST} levels deep, which no such file is; download it again"
        ) from error
    except ValueError as error:
        raise EngineError(f"{where} is not readable JSON ({error}); {again}") from error
    return content


def _number_or_object(content: dict[str, Any]) -> Any:
    """Read a number as transformers writes it when it is not finite: ``{"__float__": "Infinity"}``."""
    written = content.get("__float__") if len(content) == 1 else None
    return float(written) if written in ("Infinity", "-Infinity", "NaN") else content


def value_text(value: Any) -> str:
    """Write a JSON value for a message, shortened."""
    if isinstance(value, (dict, list)) and len(value) > LONGEST_SHOWN:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return _shorten(json.dumps(value, ensure_ascii=False))


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


_COUNTS = (
    *HEAD_COUNT_KEYS, *SLIDING_HEAD_COUNT_KEYS, "cross_num_attention_heads",
    *(name for side in ("encoder", "decoder")
      for name in (f"{side}_attention_heads", f"num_{side}_attention_heads", f"{side}_num_attention_heads")),
)  # fmt: skip

FIELDS: Mapping[str, FieldType] = {
    **dict.fromkeys((*_COUNTS, *(f"{name}_per_layer" for name in _COUNTS), *HEAD_DIM_KEYS), COUNT),
    **dict.fromkeys(LAYER_COUNT_KEYS, LAYERS),
    **dict.fromkeys((*CONTEXT_KEYS, "original_max_position_embeddings"), NUMBER),
    "num_hidden_groups": WHOLE,
    **dict.fromkeys(("num_kv_shared_layers", "num_nextn_predict_layers", "num_mtp_layers", "head_ratio"), WHOLE),
    **dict.fromkeys(("q_groups", "k_groups", "v_groups", "post_attention_groups", "o_groups"), WHOLE),
    **dict.fromkeys(("pad_token_id", "decoder_start_token_id", "bits"), WHOLE),
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "tie_word_embeddings"), FLAG),
    **dict.fromkeys(("model_type", "rope_type", "quant_method", "version", "checkpoint_format"), TEXT),
    **dict.fromkeys(("architectures", "layer_types", "layers_block_type"), TEXTS),
    **dict.fromkeys(("text_config", "quantization_config", "rope_parameters", "rope_scaling"), OBJECT),
    "per_layer_config": OBJECTS,
    "weight_block_size": WHOLES,
}  # fmt: skip
"""The types of the fields of ``config.json`` that this program uses, at any depth."""


def read_config(directory: Path) -> dict[str, Any]:
    """Read ``config.json``; the settings of its ``text_config``, if there is one, come first.

    Raises `EngineError` when it is not a JSON object, or one of its `FIELDS` has another type.
    """
    config = read_object(directory / "config.json", FIELDS)
    return {**config, **(config.get("text_config") or {})}


def settings_of(directory: Path) -> tuple[str, int, int]:
    """Read a model's type and numbers of layers and heads from its ``config.json``; empty or 0 where unknown."""
    try:
        config = read_config(directory)
    except EngineError:
        return "", 0, 0
    heads = 0
    with suppress(EngineError):
        heads = head_count(config, Head("decoder", 0))
    return config.get("model_type") or "", layer_count(config, *LAYER_COUNT_KEYS), heads
