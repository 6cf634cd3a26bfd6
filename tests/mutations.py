"""Damaged and hostile model folders on the command line: one line says what is wrong, within limits of time and memory.

    python -m tests.mutations --count 1000 --seed 1

One file of a tiny model is changed: types swapped, huge numbers, deep nesting, fields removed or added, paths that lead
elsewhere, bytes cut off. The models have several architectures; one has several files, and one an adapter. One command
runs on each in a forked process, once everything is imported, and its time and memory are watched.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import random
import resource
import shutil
import signal
import string
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TYPES = (
    "gpt2", "llama", "bert", "t5", "bart", "albert", "mixtral", "gemma3_text", "opt", "falcon", "xlm", "deberta-v2",
)  # fmt: skip
"""Architectures whose folders are mutated."""

COMMANDS = (
    ("export", "{}", "ranks"),
    ("export", "{}", "attention", "--text", "The cat 5"),
    ("export", "{}", "attention", "--text", "1000000000 5"),
    ("check", "{}"),
    ("export", "{}", "weights"),
)
"""One of them, chosen at random, runs on each mutated folder."""

SECONDS, PATIENCE, GROWTH = 10.0, 30.0, 2**30
"""The limits of a command: its processor time, the time until it ends, and the bytes of memory that it allocates."""

TICKS = os.sysconf("SC_CLK_TCK")
"""The units of a second in which Linux counts processor time."""

LONGEST_LINE = 1500
"""Characters of a line on standard error."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 1000, 10**5, 10**6, 10**7, 10**8, 10**9, 2**31, 2**31 - 1, 2**63, 10**400,
    -(10**9), 0.5, 1e300, float("nan"), float("inf"), "", "x", "8", "\x1b]52;c;eA==\x07", "name " * 4000, "y" * 20000,
    "AutoTokenizer", "AutoModel", "../../../etc/passwd", "/dev/zero", "/etc/hostname", "((a|.)*)*$X", [], {}, [[]],
    {"quant_method": "gptq", "bits": 4}, {"quant_method": "bitsandbytes", "load_in_4bit": True}, {"model_type": "gpt2"},
    {"rope_type": "yarn", "factor": 1e9}, {"rope_type": "dynamic", "factor": 0}, {"__float__": "Infinity"},
    {"quant_method": "fp8", "weight_block_size": [0, 10**9]}, {"type": "Split", "pattern": {"Regex": "(a|a)*b"}},
    [None], {"a": {"b": 1}}, ["x"] * 1000, [1] * 10**5, {str(each): each for each in range(1000)},
)  # fmt: skip
"""Values that replace a field's own."""

FIELDS = (
    "num_labels", "id2label", "num_hidden_layers", "num_layers", "n_layer", "encoder_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_size", "vocab_size", "max_position_embeddings", "n_positions",
    "relative_attention_num_buckets", "relative_attention_max_distance", "intermediate_size", "layer_types",
    "rope_scaling", "rope_parameters", "sliding_window", "model_type", "architectures", "auto_map", "tokenizer_class",
    "quantization_config", "text_config", "vision_config", "torch_dtype", "dtype", "pad_token_id", "eos_token_id",
    "decoder_start_token_id", "is_encoder_decoder", "is_decoder", "tie_word_embeddings", "hidden_act",
    "type_vocab_size", "num_local_experts", "num_experts_per_tok", "attn_implementation", "_attn_implementation",
    "per_layer_config",
    "rank_pattern", "alpha_pattern", "target_modules", "lora_alpha", "r", "use_dora", "model_max_length", "weight_map",
    "metadata", "added_tokens_decoder", "chat_template", "extra_special_tokens", "model", "pre_tokenizer", "vocab",
    "use_cache", "output_attentions", "return_dict", "problem_type", "n_langs", "layers_block_type", "mtp_num_layers",
    "num_kv_shared_layers", "max_source_positions", "attention_window", "transformers_version", "name_or_path",
    "subfolder", "revision", "pruned_heads", "tokenizer_file", "vocab_file", "add_prefix_space", "padding_side",
)  # fmt: skip
"""Fields that are added."""


@dataclass(frozen=True)
class Found:
    """The result of a command on one mutated folder; ``troubles`` are the rules that it broke."""

    mutation: str
    command: str
    troubles: tuple[str, ...]
    seconds: float
    growth: int
    code: int
    said: str


def write_models(place: Path, model_types: Iterable[str]) -> list[Path]:
    import torch

    from tests import tiny_models
    from tests.tiny_configurations import tiny_configuration

    folders = []
    for model_type in model_types:
        model = tiny_models.build(tiny_configuration(model_type), seed=1)
        folders.append(tiny_models.save(model, place / model_type))
        if model_type == "gpt2":
            folders.append(tiny_models.save(model, place / "sharded"))
            (folders[-1] / "model.safetensors").unlink()
            model.save_pretrained(folders[-1], max_shard_size="30KB")
        if model_type == "llama":
            shutil.copytree(folders[-1], place / "pickled")
            (place / "pickled" / "model.safetensors").unlink()
            torch.save(model.state_dict(), place / "pickled" / "pytorch_model.bin")
            shutil.copytree(folders[-1], place / "without-tokenizer", ignore=shutil.ignore_patterns("tokenizer*"))
            folders += [place / "pickled", place / "without-tokenizer"]
            patterns = {"rank_pattern": {"layers.0.self_attn.k_proj": 8}, "alpha_pattern": {"q_proj": 6}}
            settings = patterns | {"target_modules": ["q_proj"], "fan_in_fan_out": False}
            folders.append(write_adapter_of(place / "llama", place / "adapter", **settings))
    return folders


def write_adapter_of(base: Path, place: Path, **settings: Any) -> Path:
    """Write an adapter of one module of a tiny Llama, with settings of its own."""
    from tests.engine.checkpoints.test_adapters import low_rank, write_adapter

    return write_adapter(place, str(base), low_rank("model.layers.1.self_attn.q_proj", 32, 32), **settings)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside a JSON value, or to the first ones in long lists and objects."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in itertools.islice(inner, 80):
        yield (*path, key)
        yield from _paths(each, (*path, key))


def _mutate_value(content: Any, draw: random.Random) -> tuple[Any, str]:
    """Change one value of a JSON file, or several."""
    content = copy.deepcopy(content)
    said = []
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        paths = list(_paths(content))
        kind = draw.choice(("replace", "replace", "replace", "delete", "add", "add", "swap", "rename", "root"))
        if kind == "root" or not paths or not isinstance(content, (dict, list)):
            if draw.random() < 0.15:
                content = draw.choice(VALUES)
                return content, f"all is {str(content)[:40]}"
            continue
        top = [path for path in paths if len(path) == 1]
        path = draw.choice(top if draw.random() < 0.6 else paths)
        holder = content
        for key in path[:-1]:
            holder = holder[key]
        value = copy.deepcopy(draw.choice(VALUES))
        if kind == "replace":
            holder[path[-1]] = value
        elif kind == "delete":
            del holder[path[-1]]
        elif kind == "add":
            inside = content if draw.random() < 0.8 or not isinstance(holder, dict) else holder
            name = draw.choice(FIELDS)
            if isinstance(inside, dict):
                inside[name] = value
                path = (name,)
        elif kind == "rename" and isinstance(holder, dict):
            holder[draw.choice((str(value)[:30], f"{path[-1]}x", "\x1b[31m"))] = holder.pop(path[-1])
        elif kind == "swap" and isinstance(holder, dict):
            other = draw.choice(list(holder))
            holder[path[-1]], holder[other] = holder[other], holder[path[-1]]
        said.append(f"{kind} {'.'.join(map(str, path))[:60]} {str(value)[:30]!r}")
    return content, "; ".join(said)


def _mutate_bytes(raw: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Change a file's bytes, whatever they mean."""
    kind = draw.choice(
        ("cut", "cut", "flip", "flip", "empty", "latin", "deep", "deep object", "mark", "twice", "digits")
    )
    place = draw.randrange(len(raw) or 1)
    if kind == "cut":
        return raw[:place], f"cut at {place}"
    if kind == "flip":
        flipped = bytearray(raw)
        for _ in range(draw.choice((1, 3, 30))):
            flipped[draw.randrange(len(flipped))] = draw.randrange(256)
        return bytes(flipped), "bytes flipped"
    made = {
        "empty": b"",
        "latin": raw[:place] + b"\xff\xfe" + raw[place:],
        "deep": b"[" * 100_000 + b"]" * 100_000,
        "deep object": b'{"model_type":"llama","a":' * 5000 + b"1" + b"}" * 5000,
        "mark": b"\xef\xbb\xbf" + raw,
        "twice": raw + raw,
        "digits": raw.replace(b"1", b"1" * 5000, 1),
    }
    return made[kind], kind


def _mutate_place(file: Path, draw: random.Random) -> str:
    """Replace a file by something that is no regular file."""
    file.unlink()
    kind = draw.choice(("nothing", "pipe", "zeros", "folder", "away", "loop", "nowhere"))
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind != "nothing":
        aims = {"zeros": "/dev/zero", "away": "/etc/passwd", "loop": file.name, "nowhere": "./not-there"}
        file.symlink_to(aims[kind])
    return f"{file.name} is {kind}"


def _mutate_header(file: Path, draw: random.Random) -> str:
    """Change the header of a safetensors file for one tensor."""
    raw = file.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    name = draw.choice([each for each in header if each != "__metadata__"])
    kind = draw.choice(("flat", "swapped", "dtype", "name", "number", "huge", "gone"))
    shape = header[name]["shape"]
    if kind == "flat":
        header[name]["shape"] = draw.choice(([1, *shape], [int(np.prod(shape))], [*shape, 1]))
    elif kind == "swapped":
        header[name]["shape"] = shape[::-1]
    elif kind == "dtype":
        header[name]["dtype"] = draw.choice(("I32", "U32", "F64", "F8_E4M3", "BOOL", "nonsense"))
    elif kind == "huge":
        header[name]["shape"] = [2**62, 4]
    elif kind == "gone":
        del header[name]
    else:
        called = {"name": f"{name}{'x' * 5000}", "number": name.replace(".1.", f".{10**9}.").replace(".0.", ".77.")}
        header[called[kind]] = header.pop(name)
    written = json.dumps(header).encode()
    file.write_bytes(len(written).to_bytes(8, "little") + written + raw[8 + length :])
    return f"{file.name}: {name} {kind}"


def mutate(folder: Path, draw: random.Random) -> str:
    """Change one file of a folder; return a description."""
    files = sorted(folder.iterdir())
    texts = [file for file in files if file.suffix == ".json"]
    named = [file for file in texts if "config" in file.name or "index" in file.name]
    fate = draw.random()
    if draw.random() < 0.06 and (weights := sorted(folder.glob("*.safetensors"))):
        return _mutate_header(draw.choice(weights), draw)
    file = draw.choice(named if fate < 0.75 else texts)
    raw = file.read_bytes()
    if fate > 0.94:
        return _mutate_place(draw.choice(files), draw)
    if fate > 0.86:
        changed, said = _mutate_bytes(raw, draw)
        file.write_bytes(changed)
    elif fate > 0.8 and (folder / "config.json").exists():
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        config["model_type"] = said = draw.choice(sorted(CONFIG_MAPPING.keys()))
        if draw.random() < 0.5:
            config.pop("architectures", None)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return f"type {said}"
    else:
        content, said = _mutate_value(json.loads(raw), draw)
        file.write_text(json.dumps(content), encoding="utf-8", errors="surrogatepass")
    return f"{file.name}: {said}"


def _run_here(arguments: list[str], place: Path, *, has_input: bool) -> None:
    """Run the command in this forked process, and end the process."""
    code = 70
    try:
        os.setsid()
        os.environ |= {f"XDG_{kind}_HOME": str(place / kind) for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
        os.environ["HOME"] = str(place)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(place / name, os.O_WRONLY | os.O_CREAT), number)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        sys.stdin = open(0) if has_input else None  # noqa: SIM115  # as Python does where it is closed
        sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.argv = ["attn-tui", *arguments]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        from tui.entry import main as run

        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _memory_of(process: int) -> int:
    """Return the bytes of a process's own memory, not shared since the fork; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty", "Swap:"))) * 1024


def _time_of(process: int) -> float:
    """Return the seconds of processor time that a process has taken; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except (OSError, ValueError):
        return 0.0
    return sum(map(int, fields[11:13])) / TICKS  # user and system time (man 5 proc)


def watch(mutation: str, arguments: list[str], place: Path, *, has_input: bool) -> Found:
    """Run a command in a fork; stop it if it takes too much time or memory."""
    begin = time.monotonic()
    process = os.fork()
    if process == 0:
        _run_here(arguments, place, has_input=has_input)
    growth, used, troubles, status = 0, 0.0, [], 0
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            break
        growth, used = max(growth, _memory_of(process)), max(used, _time_of(process))
        if growth > GROWTH or used > SECONDS or time.monotonic() - begin > PATIENCE:
            troubles.append("memory" if growth > GROWTH else "time")
            os.killpg(process, signal.SIGKILL) if os.getpgid(process) == process else os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            break
        time.sleep(0.02)
    said = (place / "err").read_text(encoding="utf-8", errors="replace") if (place / "err").exists() else ""
    code = os.waitstatus_to_exitcode(status) if ended else -9
    troubles += _troubles(said, code, bool(ended))
    return Found(mutation, " ".join(arguments[:1] + arguments[2:]), tuple(troubles), used, growth, code, said)


def _troubles(said: str, code: int, has_ended: bool) -> list[str]:
    """Name what is wrong with a command's exit code and its lines on standard error."""
    lines = said.splitlines()
    rules = {
        "unexpected": "unexpected" in said,
        "traceback": "Traceback" in said,
        f"code {code}": has_ended and code not in (0, 1),
        "nothing said": code == 1 and "attn-tui: " not in said,
        "foreign line": any(not line.startswith(("attn-tui: ", "  ")) for line in lines if line.strip()),
        "long line": any(len(line) > LONGEST_LINE for line in lines),
        "control character": any(ord(each) < 32 and each not in string.whitespace for each in said),
    }
    return [name for name, is_broken in rules.items() if is_broken]


def examine(folders: list[Path], case: str) -> Found:
    """Mutate a folder and run a command on it, both chosen by the case's name."""
    draw = random.Random(case)
    with tempfile.TemporaryDirectory(prefix="mutated-") as place:
        folder = Path(shutil.copytree(draw.choice(folders), Path(place) / "model"))
        mutation = mutate(folder, draw)
        command = [part.format(folder) for part in draw.choice(COMMANDS)]
        return watch(mutation, command, Path(place), has_input=draw.random() < 0.8)


def prepare() -> None:
    """Import everything that commands import, so that a fork need not."""
    import torch

    torch.set_num_threads(1)
    import importlib
    import pkgutil

    import transformers

    import engine

    for found in pkgutil.walk_packages(engine.__path__, "engine."):
        if "parquet" not in found.name:
            importlib.import_module(found.name)
    for name in ("AutoModel", "AutoTokenizer", "modeling_utils", "AutoModelForCausalLM"):
        getattr(transformers, name)


def main() -> int:
    """Examine cases, print those with troubles, and counts; return 1 if there were troubles."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--case", help="one case alone, as it was printed, with all that it says")
    parser.add_argument("--types", nargs="+", default=TYPES, help="architectures, others than the usual ones")
    asked = parser.parse_args()
    prepare()
    counts: Counter[str] = Counter()
    slowest, largest = 0.0, 0
    with tempfile.TemporaryDirectory(prefix="models-") as place:
        folders = write_models(Path(place), asked.types)
        for case in [asked.case] if asked.case else [f"{asked.seed}.{number}" for number in range(asked.count)]:
            found = examine(folders, case)
            counts.update(found.troubles or ("fine",))
            counts[f"exit {found.code}"] += 1
            slowest, largest = max(slowest, found.seconds), max(largest, found.growth)
            if found.troubles or asked.case or found.seconds > SECONDS / 2:
                facts = f"{', '.join(found.troubles)} | {found.seconds:.1f} s, {found.growth >> 20} MB"
                print(f"{case} | {found.command} | {found.mutation} | {facts}")
                print(f"    {found.said.strip()[: None if asked.case else 300]}")
    print(f"{dict(sorted(counts.items()))}; slowest {slowest:.1f} s, largest {largest >> 20} MB")
    return int(counts["fine"] < sum(count for name, count in counts.items() if name.startswith("exit")))


if __name__ == "__main__":
    sys.exit(main())
