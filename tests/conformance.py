"""A check of every type in transformers: ``python -m tests.conformance`` writes ``tests/conformance.csv``.

``--update TYPE …`` replaces the lines of some types; types without it are checked and printed. The engine's list of
proven types is written with the table.

For each type that reads text, a tiny random model is built from its configuration, saved, opened by the ordinary
loader and checked by the engine's own proof, and its maps are compared with the probabilities that the model returns.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import transformers
from torch import nn

from engine.architectures import outline
from engine.models.attention_maps import returned_probabilities
from engine.models.reader import Reader
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import Finding
from tests import tiny_models
from tests.opening import open_folder, open_reader, prove_layers
from tests.tiny_classes import all_types, base_class
from tests.tiny_configurations import tiny_configuration

TABLE = Path(__file__).with_name("conformance.csv")

PROVEN = Path(outline.__file__)
"""The file with the engine's list of proven types."""

LARGEST = 200_000_000
"""The most parameters of a tiny model."""

SECONDS = 180
"""The time limit for one type."""

TEXT = "The cat sat on the mat, and the dog sat on the cat."


@dataclass(frozen=True)
class Row:
    """The result for one type.

    Attributes
    ----------
    outcome : proven, unproven, declined, not built, wrong or failed.
    stacks, layers, heads : as the engine shows them, even if it cannot run the model; the heads and key/value heads are
        those of the first layer.
    output, scores : identities (a) and (b): the worst verdict over the layers, with its note.
    maps : the largest difference between the engine's maps and the model's own probabilities, or why there are none.
    reason : why the type is not proven.
    """

    model_type: str
    outcome: str
    stacks: str = ""
    layers: str = ""
    heads: str = ""
    output: str = ""
    scores: str = ""
    maps: str = ""
    reason: str = ""


def check(model_type: str) -> Row:
    """Build, save, open and prove one type."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            config = tiny_configuration(model_type)
            with torch.device("meta"):
                size = sum(each.numel() for each in base_class(config)._from_config(config).parameters())
            if size > LARGEST:
                return Row(model_type, "not built", reason=f"its smallest known form has {size:,} parameters")
            model = tiny_models.build(config)
            model.save_pretrained(folder)
            tiny_models.byte_level_tokenizer().save_pretrained(folder)
        except Exception as error:
            return Row(model_type, "not built", reason=one_line(error))
        try:
            return _proven(model_type, folder)
        except EngineError as error:
            return Row(model_type, "declined", reason=_said(error, folder))
        except Exception as error:
            return Row(model_type, "failed", reason=one_line(error))


def one_line(error: BaseException) -> str:
    """Return the class and the beginning of the text of an error."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _said(error: EngineError, folder: Path) -> str:
    """Return the engine's message, without the folder's name."""
    return " ".join(str(error).replace(str(folder), "FOLDER").split())


def _proven(model_type: str, folder: Path) -> Row:
    """Open a folder, check its identities, and compare its maps."""
    outline = open_folder(folder)[2].outline
    first = outline.layers[0]
    described = {
        "stacks": " ".join(outline.stacks),
        "layers": " ".join(str(len(outline.stack_layers(stack))) for stack in outline.stacks),
        "heads": f"{first.heads}/{first.key_value_heads}",
    }
    try:
        reader = open_reader(folder)
        proofs = prove_layers(folder, reader)
    except EngineError as error:
        return Row(model_type, "declined", **described, reason=_said(error, folder))
    output, scores = (_worst([getattr(proof, side) for proof in proofs.values()]) for side in ("output", "scores"))
    maps = _maps(reader, list(proofs)).replace(str(folder), "FOLDER")
    good = output.holds and scores.holds
    outcome = "proven" if good else "unproven" if (output.holds, scores.holds) != (False, False) else "wrong"
    reason = "" if good else next(each.note for each in (output, scores) if not each.holds)
    if untrue := labels_untrue(reader):
        outcome, reason = "wrong", untrue
    return Row(model_type, outcome, **described, output=_say(output), scores=_say(scores), maps=maps, reason=reason)


def _worst(findings: list[Finding]) -> Finding:
    order = {False: 0, None: 1, True: 2}
    return min(findings, key=lambda each: (order[each.holds], -each.residual))


def _say(finding: Finding) -> str:
    """Write a finding as a cell of the table."""
    if not finding.holds:
        return finding.verdict
    return f"{finding.verdict} with {finding.note}" if finding.note else finding.verdict


def _maps(reader: Reader, layers: list[Head]) -> str:
    """Compare every layer's maps with what its module returns while the model runs in eager mode."""
    returned: dict[nn.Module, list[Any]] = {}

    def keep(module: nn.Module, args: Any, result: Any) -> None:
        returned.setdefault(module, []).append(result)

    try:
        reader.read(TEXT, lambda: None)
        shown = {layer: reader.layer_maps(layer).weights for layer in layers}
        hooks = [module.register_forward_hook(keep) for module in dict.fromkeys(reader.modules.values())]
        reader.reads_with_kernels = False
        inputs = reader.inputs(reader.words.read(TEXT, None))  # reading for maps stops before the last module
        with reader.running(inputs["input_ids"].shape[1], lambda: None):
            reader.model(**inputs)
        for hook in hooks:
            hook.remove()
        worst = 0.0
        for layer, maps in shown.items():
            calls = returned[reader.modules[layer]]
            own = returned_probabilities(calls[0] if len(calls) == 1 else calls[layer.layer], 1, len(maps))
            if own is None:
                return "computed again only"
            worst = max(worst, float(np.abs(maps - own[0].numpy()).max()))
    except EngineError as error:
        return " ".join(str(error).split())[:120]
    return f"{worst:.0e}"


def labels_untrue(reader: Reader) -> str:
    """Name a layer whose map is labelled with other tokens than the model was given; empty if there is none.

    The model was given what its embeddings looked up: rows, or columns if a model has the tokens first, possibly with
    padding.
    """
    given: set[tuple[int, ...]] = set()

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].ndim == 2 and not args[0].is_floating_point():
            given.update(tuple(line) for line in (*args[0].tolist(), *args[0].T.tolist()))

    tables = [each for each in reader.model.modules() if isinstance(each, nn.Embedding) or not list(each.children())]
    hooks = [table.register_forward_pre_hook(keep) for table in tables]
    try:
        reader.read("The dog sat.", lambda: None)
    except EngineError:
        return ""
    finally:
        for hook in hooks:
            hook.remove()
    for layer in reader.modules:
        try:
            maps = reader.layer_maps(layer)
        except EngineError:
            continue
        queries, keys = maps.query_tokens, maps.key_tokens
        both = keys[len(queries) :] if keys[: len(queries)] == queries else keys  # its own, then the encoder's
        for axis in filter(None, (queries, keys if len(keys) == len(queries) else both)):
            if axis not in {reader.words.texts(ids[: len(axis)]) for ids in given if min(ids) >= 0}:
                return f"{layer.stack} {layer} is labelled with tokens that the model was not given"
    return ""


def _apart(model_type: str) -> Row:
    """Check a type in a process of its own, which may hang or be killed."""
    command = [sys.executable, "-m", "tests.conformance", model_type]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Row(model_type, "failed", reason=f"no answer within {SECONDS} s")
    rows = [Row(*line) for line in csv.reader(done.stdout.splitlines()) if len(line) == len(fields(Row))]
    return rows[0] if rows else Row(model_type, "failed", reason=done.stderr.strip()[-160:])


def table() -> list[Row]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [Row(*line) for line in csv.reader(file)][1:]


def main() -> None:
    """Check all types, or with ``--update`` the named ones, and write the table; without it print the named ones."""
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = sys.argv[1:]
    if names and names[0] != "--update":
        for name in names:
            csv.writer(sys.stdout, lineterminator="\n").writerow(astuple(check(name)))
            sys.stdout.flush()
        return
    found = {row.model_type: row for row in table()} if names else {}
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for row in workers.map(_apart, names[1:] or all_types()):
            print(f"{row.model_type:30} {row.outcome:10} {row.reason[:100]}", flush=True)
            found[row.model_type] = row
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([each.name for each in fields(Row)])
        writer.writerows(astuple(found[name]) for name in sorted(found))
    write_proven(found.values())


def write_proven(rows: Iterable[Row]) -> None:
    names = sorted(row.model_type for row in rows if row.outcome == "proven")
    listed = textwrap.indent(textwrap.fill(" ".join(names), 116, break_on_hyphens=False), "    ")
    head, begin, rest = PROVEN.read_text(encoding="utf-8").partition('_NAMES = """\n')
    end = rest[rest.index('"""') :]
    PROVEN.write_text(f"{head}{begin}{listed}\n{end}", encoding="utf-8")


if __name__ == "__main__":
    main()
