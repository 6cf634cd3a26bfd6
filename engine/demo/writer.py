"""Writing text from templates: slots that are filled at random, and the little English grammar they need.

In a template, `{word}` is replaced by a random item of that name, and what comes out is expanded again; `{word=x}` also
remembers it, so that `{x}` says it a second time; `{word.past}` inflects it; `[this|that|]` is one of its alternatives.
`{A}`, `{B}` and `{C}` are people, with pronouns such as `{A.he}`.
"""

import random
import re
from collections.abc import Mapping, Sequence

from engine.demo.words import THEMES, WORDS

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)(?:=(\w+))?(?:\.(\w+))?\}")
_START = re.compile(r"(^|[.!?]\s+\"?|\n\"?|^\")([a-z])", re.MULTILINE)
_ARTICLE = re.compile(r"\b([Aa])(?= (?:[aei]|o(?!ne\b|nce\b)|u(?!ni|se)|hour|honest|8\b|1[18]\b|8\d\b))")

_PAST_FORMS = """
be=was have=had do=did go=went see=saw eat=ate drink=drank make=made take=took give=gave find=found
buy=bought sell=sold read=read write=wrote run=ran swim=swam sit=sat sing=sang tell=told say=said think=thought
know=knew feel=felt lose=lost win=won catch=caught fly=flew ride=rode drive=drove sleep=slept cut=cut set=set
teach=taught speak=spoke draw=drew build=built hide=hid fight=fought keep=kept wear=wore send=sent leave=left
break=broke stand=stood fall=fell come=came bring=brought meet=met begin=began choose=chose pay=paid feed=fed
light=lit throw=threw dig=dug understand=understood hear=heard lie=lay ring=rang try=tried carry=carried
study=studied dry=dried copy=copied sweep=swept hold=held forget=forgot wake=woke grow=grew put=put
"""
_DOUBLED = frozenset({"run", "swim", "sit", "win", "cut", "set", "begin", "dig", "plan", "clap", "forget"})
_PLURAL_FORMS = """
mouse=mice wolf=wolves sheep=sheep fish=fish child=children man=men woman=women knife=knives
leaf=leaves loaf=loaves foot=feet tooth=teeth goose=geese person=people wife=wives deer=deer fisherman=fishermen
medicine=medicine luggage=luggage
"""
_PAST = dict(pair.split("=") for pair in _PAST_FORMS.split())
_PLURALS = dict(pair.split("=") for pair in _PLURAL_FORMS.split())
_PRONOUNS = {
    "he": ("she", "he"), "him": ("her", "him"), "his": ("her", "his"), "himself": ("herself", "himself"),
    "He": ("She", "He"), "His": ("Her", "His"), "boy": ("girl", "boy"), "man": ("woman", "man"),
    "king": ("queen", "king"), "prince": ("princess", "prince"), "son": ("daughter", "son"),
    "mr": ("Mrs.", "Mr."),
}  # fmt: skip


def past(verb: str) -> str:
    """Return the past tense of a verb."""
    if verb in _PAST:
        return _PAST[verb]
    if verb in _DOUBLED:
        return verb + verb[-1] + "ed"
    if verb.endswith("e"):
        return verb + "d"
    return verb + "ed"


def present(verb: str) -> str:
    """Return the form of a verb that follows `she`."""
    irregular = {"be": "is", "have": "has", "do": "does", "go": "goes"}
    if verb in irregular:
        return irregular[verb]
    if verb.endswith("y") and verb[-2] not in "aeou":
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "ss")) else "s")


def progressive(verb: str) -> str:
    """Return the form of a verb that follows `is`."""
    if verb in _DOUBLED:
        return verb + verb[-1] + "ing"
    if verb == "lie":
        return "lying"
    if verb.endswith("e") and not verb.endswith("ee") and verb != "be":
        return verb[:-1] + "ing"
    return verb + "ing"


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    if noun in _PLURALS:
        return _PLURALS[noun]
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")


def _inflect(text: str, form: str) -> str:
    """Put a phrase into a form: a verb's on its first word, a noun's on its last, or pick a part of a fact."""
    if form.isdigit():
        return text.split("=")[int(form) - 1]
    first, space, rest = text.partition(" ")
    if form == "past":
        return past(first) + space + rest
    if form == "s":
        return present(first) + space + rest
    if form == "ing":
        return progressive(first) + space + rest
    if form == "pl":
        before, space, last = text.rpartition(" ")
        return before + space + plural(last)
    raise ValueError(f"unknown form {form!r} in a template")


class Writer:
    """Fills templates; one writer keeps one stream of random choices."""

    def __init__(self, rules: Mapping[str, Sequence[str]], chooser: random.Random) -> None:
        self._rules = rules
        self._chooser = chooser
        self._memory: dict[str, str] = {}
        self._theme: Mapping[str, Sequence[str]] = {}

    def write(self, rule: str) -> str:
        """Write one text of the kind that the rule names, about one theme and with its own people."""
        self._memory = {}
        self._theme = THEMES[self._chooser.choice(tuple(THEMES))]
        women = [(name, 0) for name in WORDS["female"]]
        people = self._chooser.sample(women + [(name, 1) for name in WORDS["male"]], 3)
        for letter, (name, gender) in zip("ABC", people, strict=True):
            self._memory[letter] = name
            for form, words in _PRONOUNS.items():
                self._memory[f"{letter}.{form}"] = words[gender]
        text = self._expand("{" + rule + "}")
        text = _ARTICLE.sub(r"\1n", text)
        return _START.sub(lambda match: match[1] + match[2].upper(), text)

    def _expand(self, template: str) -> str:
        """Replace every alternative and every slot, those of the replacements too."""
        while _CHOICE.search(template):
            template = _CHOICE.sub(lambda match: self._chooser.choice(match[1].split("|")), template)
        return _SLOT.sub(self._fill, template)

    def _fill(self, match: re.Match[str]) -> str:
        """Return what stands in place of one slot."""
        name, bound, form = match.groups()
        if form and f"{name}.{form}" in self._memory:
            return self._memory[f"{name}.{form}"]
        if name in self._memory:
            text = self._memory[name]
        else:
            items = self._theme.get(name) or self._rules.get(name) or WORDS[name]
            text = self._expand(self._chooser.choice(items))
        if bound:
            self._memory[bound] = text
        return _inflect(text, form) if form else text
