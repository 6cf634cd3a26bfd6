"""The cell under the cursor of a map, or of a table, in one line of plain text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from engine.values.attention import PooledBlock
from engine.values.table import CHANCE, Cell
from tui.drawing.numbers import brief_number, fit_number, short_number
from tui.drawing.text import escape_text, first_fitting, fit, quote_text

_EASY = 24
"""Cells that nearly all pairs of tokens fit into; with less room, words are shortened beside chance or two weights."""

_FEW = (5, 4, 3)
"""Characters of a number where room is short, and shorter."""

_NAMING = ("layer", "head", "from_layer", "from_head", "name", "term", "part", "token")
"""Columns that already say which row it is."""

TOP = 5
"""Tokens named in a line, at most."""

LEAST = 0.0005
"""Smallest weight that is named; smaller ones would be written as zero."""

ITSELF = "itself"
"""Stands for the token that attends to itself."""

OF_ALL = " of 1.000"
"""The usual sum of a query's weights, which is left out."""

_IN_ROW = 3
"""Keys of a row named in a line, at most, with the one under the cursor."""

_LEAST_CLOSE = 0.005
"""Smallest weight that two decimals can show."""

MASKED = "masked"
"""Stands for weights that the mask hides: they are zero whatever the head does."""


def weight_readout(
    block: PooledBlock,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    width: int,
    row: NDArray[np.float32] | None = None,
) -> str:
    """Name query, key, weight and chance, and the largest weights of the row; for a difference, both weights and it.

    The row's weights are three, counting the weight itself, or as many as fit. Where room is short, words become
    shorter, tokens are cut, chance or both weights go, and at last the number stands before bare positions.

    Parameters
    ----------
    row : all weights of the query, if they are known.
    """
    (query, key), chance = block.place, ""
    number = both = close = MASKED
    if block.pair is not None and not block.is_masked:
        number = _write_difference(block.largest)
        both = f"{' to '.join(map(write_weight, block.pair))}  {number}"
    elif not block.is_masked:
        number = both = write_weight(block.largest)
        close = f"{block.largest:.2f}" if block.largest >= _LEAST_CLOSE else number
        if block.chance is not None:
            both, chance = f"{number}  chance {write_weight(block.chance)}", f"  chance {block.chance:.2f}"

    asked, read = query_tokens[query], key_tokens[key]
    full = f"query {query} {short_token(asked)} → key {key} {short_token(read)}  {both}"
    brief, cut = (f"q {query} {short_token(asked, most)} → k {key} {short_token(read, most)}" for most in (12, 4))
    least = cell_len(f"query {query} → key {key}  {both}") + _EASY * (both != number)
    ways = list[str]()
    for largest in (*(() if row is None else _largest_in_row(row, key, key_tokens)), ""):
        end = f"   {largest}" * bool(largest)
        ways += [f"{full}{end}"] * (not width or width - cell_len(end) >= least) + [f"{brief}  {both}{end}"]
        ways += [f"{brief}  {close}  {largest}{chance}"] * bool(largest)
    ways += [f"{cut}  {both}", f"{brief}  {number}", f"{cut}  {number}"]
    bare = *(f"{numbers}  q {query} k {key}" for numbers in (both, number)), f"{number} q{query} k{key}"
    return first_fitting(width, *ways, *bare)


def _largest_in_row(row: NDArray[np.float32], key: int, tokens: Sequence[str]) -> Iterator[str]:
    """Yield texts of a row's three largest weights, then of fewer; on the largest itself, of what comes after."""
    sizes = np.where(np.isfinite(row), row, 0)
    order = [at for at in np.argsort(-sizes, kind="stable")[:_IN_ROW].tolist() if sizes[at] >= _LEAST_CLOSE]
    is_here = order[:1] == [key]
    names = [f"{at} {short_token(tokens[at])} {row[at]:.2f}" for at in order[is_here:]]
    for count in range(len(names), 0, -1):
        yield f"{'then' if is_here else '⏎'} {'  '.join(names[:count])}"


def block_readout(block: PooledBlock, query_tokens: Sequence[str], key_tokens: Sequence[str], width: int) -> str:
    """Name a block's largest weight, chance, mean and sum, its queries and keys, and the place of the largest.

    For differences it is the largest by size, with the weights of both maps, and no sum. Where room is short, tokens
    go, then chance, then words become shorter, then all but the largest goes.
    """
    query, key = block.place
    queries, keys = (
        f"{each.start}–{each.stop - 1}" if len(each) > 1 else str(each.start) for each in (block.queries, block.keys)
    )
    places, short = f"queries {queries}, keys {keys}", f"q {queries} k {keys}"
    if block.is_masked:
        return first_fitting(width, f"{MASKED}  {places}", f"{MASKED}  {short}")
    write = write_weight if block.pair is None else _write_difference
    largest, mean = f"max {write(block.largest)}", f"mean {write(block.mean)}"
    if block.pair is None:
        chance = [] if block.chance is None else [f"  chance {write_weight(block.chance)}"]
        said = [f"{largest}{each}  {mean}  sum {write_weight(block.total)}" for each in (*chance, "")]
    else:
        said = [f"{largest}  {mean}  {' to '.join(map(write_weight, block.pair))}"]
    at = f"  at {query} {short_token(query_tokens[query])} → {key} {short_token(key_tokens[key])}"
    ways = [f"{each}  {places}{end}" for each in said for end in (at, "")]
    return first_fitting(width, *ways, f"{largest}  {mean}  {short}", f"{largest}  {short}")


def largest_weights(
    begin: str, tokens: Sequence[str], weights: NDArray[np.float32], width: int, own: int | None
) -> str:
    """Name as many of the largest weights as fit, and their row's sum where it is neither one nor theirs.

    Where not even the largest fits, its token is left out.

    Parameters
    ----------
    begin : start of the line.
    tokens, weights : along the row or the column.
    own : number of the query or key itself among ``tokens``; None where these are of another text.

    Examples
    --------
    >>> row = np.array([0.5, 0.3, 0.2], dtype=np.float32)
    >>> largest_weights("looks at", ("The", " cat", " sat"), row, 63, 2)
    'looks at 0 "The" 0.500, 1 " cat" 0.300; together 0.800'
    >>> [largest_weights("→", ("The", " cat"), row[:2], width, None) for width in (24, 14)]
    ['→ 0 "The" 0.500 of 0.800', '→ 0 0.500']
    >>> column = np.array([0.5] + [0.0001] * 10_000, dtype=np.float32)
    >>> [largest_weights("←", ["a"] * len(each), each, 40, 0) for each in (column[:1], column * 7)]
    ['← itself 0.500', '← itself 3.500 of 10.500']
    """
    sizes = np.abs(np.nan_to_num(weights))
    order = [at for at in np.argsort(-sizes, kind="stable")[:TOP].tolist() if sizes[at] >= LEAST]
    names = {at: ITSELF if at == own else f"{at} {short_token(tokens[at])}" for at in order}
    whole, line = float(weights.sum()), f"{begin} nothing above {LEAST:g}"
    of = f" of {whole:.3f}"  # its room is always kept, or the names would change with the sum
    for count in range(len(order), 0, -1):
        named = ", ".join(f"{names[at]} {weights[at]:.3f}" for at in order[:count])
        shown = float(weights[order[:count]].sum())
        line = f"{begin} {named}{f'; together {shown:.3f}' if count > 1 else ''}"
        if cell_len(line + of) <= width:
            return line if of in (OF_ALL, f" of {shown:.3f}") else line + of
    return line if cell_len(line) <= width or not order else f"{begin} {order[0]} {weights[order[0]]:.3f}"


def short_token(token: str, most: int = 12) -> str:
    """Quote a token, of which at most so many cells are shown."""
    shown = escape_text(token)
    return f'"{fit(shown, most).rstrip() if cell_len(shown) > most else shown}"'


def number_readout(column: str, value: float, chance: float | None, width: int) -> str:
    """Name a number of a table and its chance, with as many digits each; a width of 0 is unlimited.

    Where room is short the column is not named, and digits go.

    Examples
    --------
    >>> [number_readout("entropy", 0.429512345, 2.0944, width) for width in (40, 24, 16, 12)]
    ['entropy 0.4295  chance 2.094', '0.4295  chance 2.094', '0.43 chance 2.09', '0.4295']
    """
    beside = "" if chance is None else f"  chance {short_number(chance)}"
    ways = [f"{column} {short_number(value)}{beside}", f"{short_number(value)}{beside}"]
    if chance is not None:
        ways += [f"{fit_number(value, digits)} chance {fit_number(chance, digits)}" for digits in (7, 6, *_FEW)]
    ways = [way for way in ways if "…" not in way]
    return first_fitting(width, *ways, f"{column} {short_number(value)}", short_number(value))


def row_name(row: Mapping[str, Cell]) -> str:
    r"""Name a row of a table: by its head, or else its name or token; empty without any.

    A row with two heads is named after the one that feeds the other.

    Examples
    --------
    >>> row_name({"stack": "cross", "layer": 1, "head": "0", "note": ""}), row_name({"rank": 1, "token": " the"})
    ('cross L1H0', "' the'")
    >>> row_name({"layer": 2, "head": "all"}), row_name({"name": "wte.weight"}), row_name({"index": 1})
    ('L2 all', 'wte.weight', '')
    >>> row_name({"layer": 2, "head": None, "part": "MLP"})
    'L2 MLP'
    >>> print(row_name({"token": "\\t"}))
    '\t'
    """
    layer, head = row.get("from_layer", row.get("layer")), row.get("from_head", row.get("head"))
    if isinstance(layer, int) and head is not None:
        stack = f"{row['stack']} " if row.get("stack") else ""
        return f"{stack}L{layer} all" if head == "all" else f"{stack}L{layer}H{head}"
    named = next((str(row[column]) for column in ("name", "term", "part") if row.get(column)), "")
    if row.get("part") and isinstance(layer, int):
        named = f"L{layer} {named}"
    token = row.get("token")
    return escape_text(named) or (quote_text(token) if isinstance(token, str) and token else "")


def row_readout(row: Mapping[str, Cell], column: str, say: Callable[[int], str], width: int) -> str:
    """Put the row's name before the readout of a cell, where both fit and the cell is not the name itself.

    Parameters
    ----------
    say : describes the cell in a number of characters.

    Examples
    --------
    >>> row, say = {"layer": 1, "head": "0"}, lambda width: number_readout("entropy", 0.43, 2.0, width)
    >>> [row_readout(row, "entropy", say, width) for width in (34, 33, 22)]
    ['L1H0  entropy 0.4300  chance 2.000', 'L1H0  0.4300  chance 2.000', 'L1H0  0.43 chance 2.00']
    """
    name, said = "" if column in _NAMING else row_name(row), say(width)
    if not name:
        return said
    return first_fitting(width, f"{name}  {said}", f"{name}  {say(max(width - cell_len(name) - 2, 1))}", said)


def measure_readout(name: str, value: float, chance: float | None, place: str, label: str, width: int) -> str:
    """Name a head's value, as a multiple of chance, its place among all and its label; the last parts go first.

    Before chance goes, digits do.

    Examples
    --------
    >>> measure_readout("L0H0", 29, 30.0, "3/32", "previous", 60)
    'L0H0 = 29  0.97 × chance 30  # 3/32  previous'
    >>> measure_readout("decoder L0H0", 29, 30.0, "3/32", "previous", 23)
    'L0H0 29 chance 30  3/32'
    >>> measure_readout("L0H0", 0.4229, 0.02959, "3/32", "", 24)
    'L0H0 0.423 chance 0.030'
    """
    brief, number = name.rpartition(" ")[2], short_number(value)
    starts, close = [f"{name} = {number}"], [f"{brief} {number}  {place}"]
    if chance is not None:
        said = f"chance {brief_number(chance, 3)}"
        starts = [f"{name} = {number}  {said}"]
        if value > 0 and chance > 0 and math.isfinite(ratio := value / chance):
            times = f"{ratio:.2f}" if 0.1 <= ratio < 10 else brief_number(ratio)
            starts.insert(0, f"{name} = {number}  {times} × {said}")
        few = (f"{brief} {fit_number(value, digits)} chance {fit_number(chance, digits)}" for digits in _FEW)
        near = f"{brief} {number} {said}"
        close = [f"{near}  {place}", near, *(each for each in few if "…" not in each)]
    ways = [f"{start}  # {place}{end}" for start in starts for end in (f"  {label}".rstrip(), "")]
    return first_fitting(width, *ways, *close, f"{brief} {number}", number)


def write_weight(value: float) -> str:
    """Format a weight with four decimals; a small one with three digits and its power of ten."""
    return f"{value:.2e}" if 0 < value < 1e-3 else f"{value:.4f}"


def _write_difference(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{write_weight(abs(value))}"


_OF_EIGENVALUES = ("qk_positive_mass", "qk_negative_mass", "ov_copying", "ov_copying_residual")
"""Measures of circuits that need eigenvalues."""


def explain_empty(column: str, row: Mapping[str, Cell], *, is_growing: bool = False) -> str:
    """Explain why a cell of a table is empty; ``is_growing`` if more of it is being computed.

    Examples
    --------
    >>> explain_empty("qk_symmetry", {"stack": "cross", "head": 0, "qk_symmetry": None})
    'undefined across stacks'
    >>> [explain_empty("b_chance", {"stack": "decoder", "b": value, "b_chance": None}) for value in (2.0, None)]
    ['its chance is unknown', 'undefined here']
    >>> explain_empty("ov_copying", {"stack": "decoder", "head": "all", "ov_copying": None})
    'it needs eigenvalues, which are computed for the selected layer'
    >>> explain_empty("label", {"label": None, "induction": 0.1, "note": None}), explain_empty("note", {"note": None})
    ('the head has no clear pattern', 'no remark')
    """
    measure = column.removesuffix(CHANCE)
    if is_growing:
        return "computing …"
    if column == "note":
        return "no remark"
    if note := row.get("note"):
        return str(note)
    if column == "label" and row.get("induction") is not None:
        return "the head has no clear pattern"
    if column != measure and row.get(measure) is not None:
        return "its chance is unknown"
    if row.get("stack") == "cross" and measure.startswith(("qk_", "ov_")):
        return "undefined across stacks"
    has_none = all(row.get(each) is None for each in _OF_EIGENVALUES)
    if row.get("head") == "all" and measure in _OF_EIGENVALUES and has_none:
        return "it needs eigenvalues, which are computed for the selected layer"
    return "undefined here"
