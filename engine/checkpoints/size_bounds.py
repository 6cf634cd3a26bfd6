"""How much main memory is free, what a model takes to read a sentence, and how large a model may be made of its files.

A configuration is a few bytes that may ask for any number of layers and labels. Its sizes are compared with the stored
tensors before anything is made of them, and a model's modules are counted while transformers makes them.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import TensorEntry
from engine.checkpoints.json_files import dotted, shown, walk
from engine.checkpoints.tensor_reader import NUMBER
from engine.values.errors import EngineError
from engine.values.memory import SENTENCE_TOKENS, SentenceNeed, size
from engine.values.outline import ModelOutline

if TYPE_CHECKING:
    from torch import nn

MEMORY_INFO = Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")
"""Where Linux says how much memory is free, and how much a container may use."""

MERGED = re.compile(r"\.experts\.\d+\.")
"""In names of tensors that transformers puts together with others when it loads them, so that they are copied."""

LAYERS = 1000
"""Layers that a configuration may always speak of: some types run one layer many times."""

LARGEST_SIZE = 2**20
"""What any size may be; a larger one has to be that of a stored tensor, or a quarter of it."""

TIMES, FURTHER_BYTES = 4, 2**29
"""How many times the stored bytes a model may take, and how many beside: some of a type's parts may not be stored."""

PACKED = 4
"""How many times as many again where weights are packed into fewer bits."""

MODULES, MODULES_FOR_A_TENSOR = 5000, 20
"""Modules that a model may have, and how many more for each stored tensor."""

TABLE = 2**21
"""Numbers that a table of embeddings may always have; a larger one has at most `TIMES` those of the largest tensor."""

REWRITING = ("normalizer", "pre_tokenizer", "post_processor")
"""Parts of a tokenizer that change a text, or what was made of it."""

LABELS = frozenset({"num_labels", "id2label", "label2id"})
"""Settings of classifiers, which are never made."""

_COUNTS_LAYERS = re.compile(r"(layers?|depths?|blocks?)$")
_IS_NO_SIZE = re.compile(r"(^|_)(ids?|index|tokens?|params?|parameters|steps?|samples?|examples?|seed|theta|base)$")
_IS_SIZE = re.compile(
    r"(^|_)(num|n|d|size|dims?|width|height|channels?|groups?|rank|buckets?|vocab|hidden|embd|inner|kernel|state|types?|"
    r"heads?|experts?|langs?|expand|mult|multiplier|ratio|repeats?|factor|window|chunk|block|distance|max|length|len)(_|$)"
)
_IS_LENGTH = re.compile(r"position|length|len$|ctx|context|n_positions|window|distance|chunk|scal|rope")
"""What settings are called that count layers, that are no sizes, that are, and that are lengths of sentences."""


def free_memory() -> int | None:
    """Count the bytes of main memory that can be had, files that are cached there among them.

    Returns
    -------
    bytes : what Linux calls available, or a container's limit where that is less; elsewhere the free pages; None where
        nothing says.
    """
    free = None
    with suppress(OSError, AttributeError, ValueError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError):
        if said := re.search(r"^MemAvailable:\s*(\d+) kB$", MEMORY_INFO.read_text(encoding="ascii"), re.MULTILINE):
            free = int(said[1]) * 1024
    with suppress(OSError, ValueError):  # no such files, or no limit, which is written as a word
        limit, used = (int((CONTAINER / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        stat = (CONTAINER / "memory.stat").read_text(encoding="ascii")
        cached = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)
        left = max(0, limit - used + (int(cached[1]) if cached else 0))
        free = left if free is None else min(free, left)
    return free


def sentence_need(
    outline: ModelOutline, entries: Mapping[str, TensorEntry], config: Mapping[str, Any], dtype: str, *, is_mapped: bool
) -> SentenceNeed:
    """Estimate what a checkpoint's model takes to read a sentence, computing in ``dtype``.

    That is as ``--dtype`` takes it: ``auto`` is the one in the configuration, or else the stored one. Tensors that can
    be used as they are in the files (``is_mapped``) need not be in memory.
    """
    named = config.get("dtype") or config.get("torch_dtype")
    chosen = dtype if dtype != "auto" else named if isinstance(named, str) else outline.dtype
    weights = mapped = 0
    is_quantised = bool(config.get("quantization_config"))
    for name, entry in entries.items():
        is_plain = entry.dtype.startswith(("float", "bfloat")) and "float8" not in entry.dtype
        takes = TensorEntry(entry.shape, chosen).stored_bytes if is_plain and not is_quantised else entry.stored_bytes
        weights += takes
        if is_mapped and not is_quantised and entry.dtype == chosen and MERGED.search(name) is None:
            mapped += takes
    tokens = min(outline.context or SENTENCE_TOKENS, SENTENCE_TOKENS)
    most = max(layer.heads for layer in outline.layers)
    maps = most * tokens**2 * (TensorEntry((1,), chosen).stored_bytes + TensorEntry((1,), "float32").stored_bytes)
    smaller = "bfloat16" if chosen == "float32" and not is_quantised else ""
    if dtype != "auto" and weights > sum(entry.stored_bytes for entry in entries.values()):
        smaller = "auto"
    return SentenceNeed(weights, mapped, maps, chosen, smaller, tokens)


def check_sizes(config: Mapping[str, Any], entries: Mapping[str, TensorEntry], where: str) -> None:
    """Compare the sizes that a configuration names, as the file has it, with the tensors that are stored.

    Raises `EngineError` when one is too large by far, naming the file (``where``), the field, what it says and what is
    stored.
    """
    numbered = len({found for name in entries for found in NUMBER.findall(name)})
    layers = max(LAYERS, 2 * numbered)
    largest = max((each for entry in entries.values() for each in entry.shape), default=0)
    for path, value in walk(config, where):
        name = next((each for each in reversed(path) if each), "")
        if name in LABELS or _IS_NO_SIZE.search(name):
            continue
        for number in value if isinstance(value, list) else (value,):
            if not isinstance(number, (int, float)) or isinstance(number, bool):
                continue
            if _COUNTS_LAYERS.search(name) and number > layers:
                stored = f"its tensors are of {numbered} layers"
            elif _IS_SIZE.search(name) and not _IS_LENGTH.search(name) and number > max(LARGEST_SIZE, TIMES * largest):
                stored = f"the largest side of a stored tensor is {largest}"
            else:
                continue
            raise EngineError(
                f"{where}: {dotted(path)} is {shown(number)}, but {stored}; download or save the model again"
            )


def text_growth(tokenizer: Mapping[str, Any]) -> int:
    """Say how many times as long a text may become by what a ``tokenizer.json`` does before and after it is cut.

    What one replacement writes may be replaced again by another whose pattern has some of its characters.
    """
    steps = [value for _, value in walk({name: tokenizer.get(name) for name in REWRITING}, "tokenizer.json")]
    replacing = [each for each in steps if isinstance(each, dict) and each.get("type") == "Replace"]
    written = {character for each in replacing for character in each["content"]}
    once = again = 1
    for each in replacing:
        pattern, length = each["pattern"], len(each["content"])
        if "Regex" in pattern:
            again *= length + 1  # which may fit between any two characters
        elif written.isdisjoint(pattern["String"]):
            once = max(once, length)
        else:
            again *= max(1, length)
    copies = [len(each["single"]) for each in steps if isinstance(each, dict) and isinstance(each.get("single"), list)]
    return once * again * math.prod(max(1, number) for number in copies)


def drop_labels(config: Mapping[str, Any]) -> dict[str, Any]:
    """Leave the settings of classifiers out of a configuration and of those inside it."""
    return {
        name: drop_labels(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name not in LABELS
    }


@contextmanager
def bound_size(entries: Mapping[str, TensorEntry], config: Any) -> Iterator[None]:
    """Let this thread make no larger a model, by a configuration of transformers, than what is stored lets expect.

    Modules, and tensors without memory (on PyTorch's meta device), are counted as they are registered, so that it is
    stopped before there is memory for any, by an `EngineError` that names what is asked for and what is stored.
    """
    from torch import nn
    from torch.nn.modules import module as hooks

    thread = threading.get_ident()
    stored = sum([entry.stored_bytes for entry in entries.values()])
    is_packed = bool(getattr(config, "quantization_config", None))
    most_bytes = TIMES * stored * (PACKED if is_packed else 1) + FURTHER_BYTES
    most_modules = MODULES + MODULES_FOR_A_TENSOR * len(entries)
    most_rows = max(TABLE, TIMES * max([math.prod(entry.shape) for entry in entries.values()], default=0))
    counts: Counter[str] = Counter()

    def refuse(what: str, held: str) -> EngineError:
        return EngineError(
            f"its config.json asks for {what}, but its files hold {held}; download or save the model again"
        )

    def count_module(parent: nn.Module, name: str, module: Any) -> None:
        counts["modules"] += threading.get_ident() == thread
        if counts["modules"] > most_modules:
            raise refuse(f"more than {most_modules} modules", f"{len(entries)} tensors")

    def count_tensor(parent: nn.Module, name: str, tensor: Any) -> None:
        if tensor is None or not tensor.is_meta or threading.get_ident() != thread:
            return
        counts["bytes"] += tensor.nbytes
        if counts["bytes"] > most_bytes:
            raise refuse(f"a model of more than {size(most_bytes)}", size(stored))
        if isinstance(parent, nn.Embedding) and tensor.numel() > most_rows:
            raise refuse(
                f"a table of shape {list(tensor.shape)}", f"no tensor of more than {most_rows // TIMES} numbers"
            )

    handles = [
        hooks.register_module_module_registration_hook(count_module),
        hooks.register_module_parameter_registration_hook(count_tensor),
        hooks.register_module_buffer_registration_hook(count_tensor),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
