"""The demo model's training text: stories written from templates, Python's own prose, and repeated random tokens.

Nothing is downloaded. The stories and the repeats depend on the seed alone; the prose is that of the running Python.

In ``templates.txt`` a line `name:` opens a rule, and each of the following lines is one way to write it, chosen at
random; a line that appears twice is chosen twice as often. `{word}` is replaced by a random item of that name, which is
expanded in turn; `{word=x}` also remembers it, so that `{x}` repeats it; `{word.past}` inflects it; `[this|that|]` is
one of its alternatives. `{A}`, `{B}` and `{C}` are people, with pronouns such as `{A.he}`.

``words.txt`` has a name and its items on each line. An item with parts, such as `France=Paris`, is a fact, whose parts
a template picks by number. A name such as `sea.place` belongs to a theme; every text has one.
"""

from __future__ import annotations

import ast
import codecs
import math
import random
import re
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from pydoc_data.topics import topics

HELD_OUT_DISTANCES = (11, 17, 31, 53, 67, 97, 127, 151)
"""Distances at which training never repeats tokens, so that position alone cannot pass a test at them."""

KINDS = {
    "story": 6, "conversation": 3, "introduction": 2, "letter": 2, "recipe": 1, "report": 2, "lesson": 3, "facts": 3,
    "list": 1, "paragraph": 7, "sentence": 5,
}  # fmt: skip
"""The relative frequency of each kind of document."""

Items = dict[str, Sequence[str]]

_PROSE_SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'\"()\-/%!?.]+[.!?:]")
_SKIPPED_FOLDERS = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"})

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)(?:=(\w+))?(?:\.(\w+))?\}")
_START = re.compile(r"(^|[.!?]\s+\"?|\n\"?|^\")([a-z])", re.MULTILINE)
_ARTICLE = re.compile(r"\b([Aa])(?= (?:[aei]|o(?!ne\b|nce\b)|u(?!ni|se)|hour|honest|8\b|1[18]\b|8\d\b))")

_PAST_FORMS = """
have=had go=went see=saw eat=ate drink=drank make=made take=took find=found buy=bought sell=sold read=read write=wrote
run=ran swim=swam sit=sat sing=sang tell=told feel=felt lose=lost win=won catch=caught fly=flew ride=rode drive=drove
sleep=slept cut=cut set=set teach=taught speak=spoke draw=drew build=built hide=hid fight=fought keep=kept wear=wore
send=sent leave=left break=broke choose=chose pay=paid feed=fed light=lit throw=threw dig=dug ring=rang sweep=swept
"""
_PRESENT = {"have": "has", "go": "goes"}
_DOUBLED = frozenset({"run", "swim", "sit", "win", "cut", "set", "dig", "plan", "clap"})
_PLURAL_FORMS = """
mouse=mice wolf=wolves sheep=sheep fish=fish child=children knife=knives leaf=leaves loaf=loaves tooth=teeth
goose=geese deer=deer fisherman=fishermen medicine=medicine
"""
_PAST, _PLURALS = (dict(pair.split("=") for pair in forms.split()) for forms in (_PAST_FORMS, _PLURAL_FORMS))
_PRONOUNS = {
    "he": ("she", "he"), "him": ("her", "him"), "his": ("her", "his"), "He": ("She", "He"), "His": ("Her", "His"),
    "boy": ("girl", "boy"), "man": ("woman", "man"), "king": ("queen", "king"), "prince": ("princess", "prince"),
    "son": ("daughter", "son"), "mr": ("Mrs.", "Mr."),
}  # fmt: skip


def _read_items() -> tuple[Items, dict[str, Items]]:
    items: Items = {
        "digit": [str(value) for value in range(2, 10)],
        "count": [str(value) for value in range(10, 100)],
        "age": [str(value) for value in range(6, 90)],
        "year": [str(value) for value in range(1890, 2031)],
        "degrees": [str(value) for value in range(3, 36)],
        "hour": [str(value) for value in range(1, 13)],
        "minute": [f"{value:02d}" for value in range(0, 60, 5)],
        "sum": [f"{a}={b}={a + b}={2 + a % 8}" for a in range(1, 21) for b in range(1, 21)],
    }
    themes: dict[str, Items] = {}
    folder = Path(__file__).parent
    for line in (folder / "words.txt").read_text(encoding="utf-8").splitlines():
        name, _, words = line.partition(": ")
        theme, _, category = name.rpartition(".")
        (themes.setdefault(theme, {}) if theme else items)[category] = words.split(", ")
    for category in ("place", "thing", "worker"):
        items[f"any_{category}"] = list(dict.fromkeys(each for theme in themes.values() for each in theme[category]))
    for rule in (folder / "templates.txt").read_text(encoding="utf-8").split("\n\n"):
        name, *templates = rule.strip().splitlines()
        items[name.removesuffix(":")] = [template.replace("\\n", "\n") for template in templates]
    return items, themes


_ITEMS, _THEMES = _read_items()


def _ends_in_consonant_and_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeou"


def _past(verb: str) -> str:
    if verb in _PAST:
        return _PAST[verb]
    if _ends_in_consonant_and_y(verb):
        return verb[:-1] + "ied"
    stem = verb + verb[-1] if verb in _DOUBLED else verb.removesuffix("e")
    return stem + "ed"


def _progressive(verb: str) -> str:
    if verb in _DOUBLED:
        return verb + verb[-1] + "ing"
    return (verb if verb.endswith("ee") else verb.removesuffix("e")) + "ing"


def _present(verb: str) -> str:
    return _PRESENT.get(verb) or _with_s(verb)


def _with_s(word: str) -> str:
    """Write the regular plural of a noun, or the form of a verb that follows `she`."""
    if _ends_in_consonant_and_y(word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "sh", "ch", "x")) else "s")


def _inflect(text: str, form: str) -> str:
    """Inflect a phrase, a verb's first word or a noun's last, or pick a part of a fact."""
    if form.isdigit():
        return text.split("=")[int(form) - 1]
    if form == "pl":
        before, space, noun = text.rpartition(" ")
        return before + space + (_PLURALS.get(noun) or _with_s(noun))
    verb, space, rest = text.partition(" ")
    forms = {"past": _past, "ing": _progressive, "s": _present}
    return forms[form](verb) + space + rest


class Writer:
    """Fills templates, with one stream of random choices."""

    def __init__(self, chooser: random.Random) -> None:
        self._chooser = chooser
        self._memory: dict[str, str] = {}
        self._theme: Items = {}

    def write(self, rule: str) -> str:
        """Write one text of the kind that the rule names, about one theme and with its own people."""
        self._memory = {}
        self._theme = _THEMES[self._chooser.choice(tuple(_THEMES))]
        women = [(name, 0) for name in _ITEMS["female"]]
        people = self._chooser.sample(women + [(name, 1) for name in _ITEMS["male"]], 3)
        for letter, (name, gender) in zip("ABC", people, strict=True):
            self._memory[letter] = name
            for form, words in _PRONOUNS.items():
                self._memory[f"{letter}.{form}"] = words[gender]
        text = self._expand("{" + rule + "}")
        text = _ARTICLE.sub(r"\1n", text)
        return _START.sub(lambda match: match[1] + match[2].upper(), text)

    def _expand(self, template: str) -> str:
        while _CHOICE.search(template):
            template = _CHOICE.sub(lambda match: self._chooser.choice(match[1].split("|")), template)
        return _SLOT.sub(self._fill, template)

    def _fill(self, match: re.Match[str]) -> str:
        name, bound, form = match.groups()
        if form and f"{name}.{form}" in self._memory:
            return self._memory[f"{name}.{form}"]
        text = self._memory.get(name)
        if text is None:
            text = self._expand(self._chooser.choice(self._theme.get(name) or _ITEMS[name]))
        if bound:
            self._memory[bound] = text
        return _inflect(text, form) if form else text


def written_documents(seed: int) -> Iterator[str]:
    """Yield documents of all kinds without end, the same for the same seed."""
    chooser = random.Random(seed)
    writer = Writer(chooser)
    kinds, weights = list(KINDS), list(KINDS.values())
    while True:
        yield writer.write(chooser.choices(kinds, weights)[0])


def prose_paragraphs(text: str) -> list[str]:
    """Pick the paragraphs of a text that are plain English, each as one line."""
    picked = []
    for paragraph in re.split(r"\n\s*\n", text.replace("**", "").replace("*", "").replace('"', "")):
        line = " ".join(paragraph.split()).replace("``", "").replace("`", "")
        words = line.split()
        if len(words) >= 8 and _PROSE_SENTENCE.fullmatch(line) and sum(map(str.isalpha, words)) > 0.75 * len(words):
            picked.append(line)
    return picked


def python_prose() -> list[str]:
    """Collect the English that ships with Python: help topics, docstrings, the Zen and, if installed, the licence."""
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
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return []
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
    return [text for text in found if text]


def _zen(path: Path) -> str:
    strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return max((codecs.decode(text, "rot13") for text in strings if isinstance(text, str)), key=len)


def english_documents(seed: int, prose: list[str], prose_share: float = 0.15) -> Iterator[str]:
    """Mix written documents with Python's prose without end; the share is counted in characters."""
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
    """Make a row of random tokens that repeats with one period; return it and the period.

    The period is drawn log-uniformly and is never one of `HELD_OUT_DISTANCES`; these are primes, so no multiple of a
    period is one either. Token 0, the start of a text, is left out.
    """
    while True:
        period = round(math.exp(chooser.uniform(math.log(shortest), math.log(longest))))
        if period not in HELD_OUT_DISTANCES:
            break
    piece = [chooser.randrange(1, vocabulary) for _ in range(period)]
    return (piece * (length // period + 1))[:length], period
