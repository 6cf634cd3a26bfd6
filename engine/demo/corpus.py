"""What the demo model learns from: written stories, the prose inside Python itself, and repeated random tokens.

Nothing is fetched. The written text and the repeats depend on the seed alone; Python's prose is that of the Python
that runs.
"""

import ast
import codecs
import math
import random
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

from engine.demo.documents import DOCUMENT_RULES, KINDS
from engine.demo.writer import Writer

HELD_OUT_DISTANCES = (11, 17, 31, 53, 67, 97, 127, 151)
"""Distances at which training never repeats a token sequence, so that a test there cannot be passed by position."""

_PROSE_SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'\"()\-/%!?.]+[.!?:]")
_SKIPPED_FOLDERS = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"})


def written_documents(seed: int) -> Iterator[str]:
    """Write documents of all kinds without end, the same ones for the same seed."""
    chooser = random.Random(seed)
    writer = Writer(DOCUMENT_RULES, chooser)
    kinds, weights = list(KINDS), list(KINDS.values())
    while True:
        yield writer.write(chooser.choices(kinds, weights)[0])


def prose_paragraphs(text: str) -> list[str]:
    """Pick the paragraphs of a text that are plain English, each on one line."""
    picked = []
    for paragraph in re.split(r"\n\s*\n", text.replace("**", "").replace("*", "").replace('"', "")):
        line = " ".join(paragraph.split()).replace("``", "").replace("`", "")
        words = line.split()
        if len(words) >= 8 and _PROSE_SENTENCE.fullmatch(line) and sum(map(str.isalpha, words)) > 0.75 * len(words):
            picked.append(line)
    return picked


def python_prose() -> list[str]:
    """Collect the English that ships with Python: help topics, docstrings, the Zen and, where it is, the licence."""
    folder = Path(sysconfig.get_path("stdlib"))
    texts = [topics[name] for name in sorted(topics)]
    licence = folder / "LICENSE.txt"
    if licence.is_file():
        texts.append(licence.read_text(encoding="utf-8"))
    for path in sorted(folder.rglob("*.py")):
        if _SKIPPED_FOLDERS.isdisjoint(path.relative_to(folder).parts):
            texts.extend(_docstrings(path))
    documents = ["\n".join(prose_paragraphs(text)) for text in texts]
    documents.append(_zen(folder / "this.py"))
    return list(dict.fromkeys(document for document in documents if document))


def _docstrings(path: Path) -> list[str]:
    """Read all docstrings of one source file; a file that does not parse has none."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return []
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
    return [text for text in found if text]


def _zen(path: Path) -> str:
    """Read the Zen of Python from the module `this`, which keeps it in rot13 and would print it if imported."""
    strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return max((codecs.decode(text, "rot13") for text in strings if isinstance(text, str)), key=len)


def english_documents(seed: int, prose: list[str], prose_share: float = 0.15) -> Iterator[str]:
    """Mix written documents with Python's prose, without end; the share is counted in characters."""
    chooser = random.Random(seed)
    written = written_documents(chooser.randrange(2**32))
    prose_characters, all_characters = 0, 1
    while True:
        due = bool(prose) and prose_characters < prose_share * all_characters
        document = chooser.choice(prose) if due else next(written)
        prose_characters += len(document) if due else 0
        all_characters += len(document)
        yield document


def repeated_row(
    length: int, vocabulary: int, shortest: int, longest: int, chooser: random.Random
) -> tuple[list[int], int]:
    """Write a row of random tokens that repeats with one period, and give the period.

    The period is drawn log-uniformly and is never one of `HELD_OUT_DISTANCES`; these are primes, so no multiple of a
    period is one either. Token 0, the start of a text, is left out.
    """
    while True:
        period = round(math.exp(chooser.uniform(math.log(shortest), math.log(longest))))
        if period not in HELD_OUT_DISTANCES:
            break
    piece = [chooser.randrange(1, vocabulary) for _ in range(period)]
    return (piece * (length // period + 1))[:length], period
