"""Filters of rows: which rows they keep, also by three-valued logic, and their errors."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from engine.values.filters import FilterError, parse_filter
from engine.values.table import Cell

COLUMNS = ("layer", "head", "x", "x_chance", "kind", "token")
ROWS: list[tuple[Cell, ...]] = [
    (0, "0", 0.5, 0.25, "query", " The"),
    (0, "all", "", 0.25, "", ""),
    (1, "3", 1e-7, 0.25, "key", "or"),
    (1, "13", -2.0, -1, "Value", "a 'b'"),
    (2, "3", math.nan, 0.25, "value", "50%"),
    (2, "4", math.inf, 0.25, "query", "The"),
]


def kept(text: str, columns: tuple[str, ...] = COLUMNS, rows: Sequence[tuple[Cell, ...]] = ROWS) -> list[int]:
    return list(parse_filter(text, columns).matches(rows))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3, 4, 5]), ("   ", [0, 1, 2, 3, 4, 5]),
        ("x < 1e-6", [2, 3]), ("x<=1e-7", [2, 3]), ("x > 0.4", [0, 5]), ("x >= .5", [0, 5]), ("0.2 > x", [2, 3]),
        ("x = 5e-1", [0]), ("x == 0.5", [0]), ("x != 0.5", [2, 3, 5]), ("x = inf", [5]), ("0 < x < 1", [0, 2]),
        ("x > x_chance", [0, 5]), ("x > chance", [0, 5]), ("x != chance", [0, 2, 3, 5]),
        ("abs(x) > 1", [3, 5]), ("x + 1 > 1.2 or (layer + 1) * 2 = 2", [0, 1, 5]), ("-3 < x and x < -1", [3]),
        ("x between 0 and 1 and layer = 0", [0]), ("x is null", [1, 4]),
        ("kind is not null and layer in (0, 1)", [0, 2, 3]), ("kind in (query, 'key')", [0, 2, 5]),
        ("kind not in (key) and head like '1%'", [3]),
        ("head = 3", [2, 4]), ("head = all", [1]), ("head != all", [0, 2, 3, 4, 5]), ("head < 5", [0, 2, 4, 5]),
        ('x = ""', [1, 4]), ('kind != ""', [0, 2, 3, 4, 5]),
        ("value", [3, 4]), ("kind contains VAL", [3, 4]), ("kind = value", [3, 4]), ("kind = 'value'", [4]),
        ("kind != value", [0, 2, 5]), ("kind = x", []), ("kind != x", [0, 2, 3, 4, 5]),
        ("token = the", [0, 5]), ("token = 'the'", []), ('token = "The"', [5]), ("'or'", [2]), ("token = 'or'", [2]),
        ("token contains '%'", [4]), ("token contains head", []), ('"\'b"', [3]), ("layer contains 2", [4, 5]),
        ("token = layer or token = The", [0, 5]),
        ("X > 0.4 AND Head = 0", [0]), ("NOT layer = 0 AND head = 3", [2, 4]), ("not layer = 0 and head = 3", [2, 4]),
        ("layer = 0 or layer = 1 and head = 3", [0, 1, 2]), ("(layer = 0 or layer = 1) and head = 3", [2]),
        ("not (layer = 0 or head = 3)", [3, 5]), ("not not query", [0, 5]),
        ("not x < 1", [5]),  # an empty cell and NaN are in no relation, and no lack of one
    ],
)  # fmt: skip
def test_a_filter_keeps_these_rows(text: str, rows: list[int]) -> None:
    assert kept(text) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("layer = mean", [0]), ("layer = 'mean'", [0]), ("layer != mean", [1, 2, 3]), ("layer = 2", [2]),
        ("layer > 1", [2, 3]), ("layer != mean and layer + 1 < 3", [1]), ("layer in (1, 10)", [1, 3]),
        ("layer between 2 and 10", [2, 3]), ("layer = x", [2]), ("layer < x", [1]), ("layer = foo", []),
    ],
)  # fmt: skip
def test_layers_beside_words_count_as_numbers(text: str, rows: list[int]) -> None:
    cells = [("mean", 1.0), ("1", 3.0), ("2", 2.0), ("10", 0.5)]
    assert kept(text, ("layer", "x"), cells) == rows


HEADS_OF = ("stack", "layer", "head", "label", "token", "from_layer", "from_head")
HEAD_ROWS: list[tuple[Cell, ...]] = [
    ("encoder", 0, "0", "previous", "L1", 0, "1"),
    ("decoder", 0, "1", "first", "prev", 0, "0"),
    ("decoder", 1, "0", "induction", "H1", 0, "1"),
    ("decoder", 1, "all", "", "x", 0, "11"),
    ("decoder", 11, "10", "", "layer", 1, "3"),
]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("l0h1", [0, 1, 2]),  # two rows are of heads that it feeds
        ("L1", [0, 2, 3, 4]),  # a text, its own rows, and what it feeds
        ("L1H0", [2]), ("H10", [4]), ("decoder.L0", [1, 2, 3]), ("encoder.L0H0", [0]),
        ("layer = L1", [2, 3]), ("head = H0", [0, 2]), ("head != h0", [1, 3, 4]),
        ("head = L1H0", [2]), ("not head = L1H0", [0, 1, 3, 4]), ("from_head = L0H1", [0, 2]), ("from_layer = L1", [4]),
        ("prev", [0, 1]), ("1st", [1]), ("label = prev", [0]), ("label = IND", [2]), ("label = Induction", [2]),
        ("label contains 1ST", [1]), ("label != 1st and label != ''", [0, 2]),
        ("token = L1", [0]), ("token = 'h1'", []),
    ],
)  # fmt: skip
def test_names_of_heads_and_layers_and_short_labels_find_rows(text: str, rows: list[int]) -> None:
    assert kept(text, HEADS_OF, HEAD_ROWS) == rows


def test_the_name_of_a_layer_finds_its_parameters() -> None:
    names = ["model.layers.1.mlp.0.weight", "model.layers.11.norm", "h.0.x.1", "lm_head.weight", "block.l1"]
    for text, rows in (("L1", [0, 4]), ("L11", [1]), ("L0 or lm_head", [2, 3]), ("L1H0", []), ("H1", [])):
        assert kept(text, ("name", "note"), [(name, "") for name in names]) == rows, text


def test_the_name_of_a_head_needs_its_columns() -> None:
    for text, rows in (("L1H0", [1]), ("L1", [0, 1])):
        assert kept(text, ("stack", "layer", "token"), [("decoder", 1, "a"), ("decoder", 2, "l1h0")]) == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "x is a column; compare it, x > 0, or quote it"),
        ("lable = 3", "no column 'lable'; did you mean layer?"),
        ("layer > chance", "no column or number 'chance'; did you mean x_chance?"),
        ("hed < 3", "no column 'hed'; did you mean head?"),
        ("x < x_chanc", "no column or number 'x_chanc'; did you mean x_chance?"),
        ("x ! 3", "'!' at character 3 means nothing here; != is 'is not'"),
        ("token = 'The", "the quote at character 9 does not end"),
        ("3 < 4", "no column '3'"),
        ("AYE > 4", "no column 'AYE'; did you mean layer?"),
        ("x < \x1b[31m", "no column or number '\\x1b[31m'"),
    ],
)
def test_errors_are_one_line_with_a_place(text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        kept(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    [
        "x < 3 query", "x <", "x < 3 and", "x < 3 4", "(x < 3", "x < 3)", "or x < 3", "()", "x < 3 not x > 1",
        "x < 3 (x > 1)", "token = The cat", "abs(x)", "nothing(x) > 1",
    ],
)  # fmt: skip
def test_no_part_of_a_condition_is_ignored(text: str) -> None:
    with pytest.raises(FilterError):
        kept(text)


@pytest.mark.parametrize("text", ["(" * 10_000 + "x < 1", "not " * 10_000 + "x < 1", "x" * 10_000 + " < 3"])
def test_hostile_texts_get_a_short_error(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        kept(text)
    assert len(str(caught.value)) < 120


def test_invisible_characters_may_be_typed_or_escaped() -> None:
    family, word = "\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    cells = [family.replace("\u200d", r"\u200d"), word.replace("\u200c", r"\u200c"), r"a\tb", "a"]
    for place, typed in enumerate((family, word, "a\tb")):
        for text in (f'token = "{typed}"', f'token = "{cells[place]}"', f'token contains "{typed}"', f'"{typed}"'):
            assert kept(text, ("token",), [(cell,) for cell in cells]) == [place], text


def test_long_texts_are_read() -> None:
    assert kept(" or ".join(["x > 9 and x < 1"] * 100 + ["layer = 2"])) == [4, 5]


def test_random_noise_is_read_or_refused() -> None:
    chance = random.Random(0)
    words = "x|head|<|>=|!=|=|(|)|and|or|not|contains|in|between|is null|like|+|,|abs|1|'|\"|1e-3| |é|\0"
    for _ in range(1000):
        text = "".join(chance.choices(words.split("|"), k=chance.randrange(12)))
        with suppress(FilterError):
            kept(text)
