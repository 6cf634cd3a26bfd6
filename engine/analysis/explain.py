"""The rows of ``explain``: the score of one query and key as a sum of terms, beside the model's own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from engine.analysis.layers import NOTHING, place_cells, wanted_heads
from engine.analysis.open_model import OpenModel
from engine.analysis.token_tables import TokenTable, token_tables
from engine.mathematics.chance import chance_of
from engine.mathematics.measures import numerical_rank
from engine.mathematics.scores import ScoreSide, ScoreTerms, score_terms
from engine.mathematics.tokens import groups
from engine.models.proof import TOLERANCES
from engine.values.errors import EngineError
from engine.values.outline import LayerOutline
from engine.values.progress import Work
from engine.values.spectra import FloatArray
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import EXPLAIN, Query

if TYPE_CHECKING:
    from engine.models.score_formula import ScoreFormula

ROUNDING = 1e-9
"""The share of a query or key that may be rounding and is not taken for a bias."""

BIASES = (
    ("query bias", "the query's bias with the key's content"),
    ("key bias", "the query's content with the key's bias"),
    ("both biases", "the query's bias with the key's bias"),
)
"""The terms with the query's bias, the key's, or both, and their notes."""


@dataclass(frozen=True)
class Term:
    """A term of the sum."""

    name: str
    kind: str
    value: float
    chance: Cell = NOTHING
    places: tuple[int, int] | None = None
    note: str = ""


def explain_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Explain a cell of each head; the last layer is kept, so that its next cell comes at once.

    Raises `EngineError` if the sentence has no such query or key, or the mask hides the key.
    """
    last = model.cached("explained last", dict[Any, Any])
    key = query.text, layer.name
    if key not in last:
        last.clear()  # before there is room for the next
        found = yield from model.scoring(query.text or "", layer.name)
        weights = model.layer_weights(layer.name)
        last[key] = *found, {matrix: weights.epsilons[matrix] for matrix in "QK"}
    scoring, (queries, keys), stored = last[key]
    place = _place("query", query.position, queries, len(queries) - 1)
    for number in wanted_heads(layer, query):
        yield None
        best = int(scoring.weights[number, place].argmax())
        seen = _place("key", query.key, keys, best)
        ends = {"query": place, "key": seen, "query_token": queries[place], "key_token": keys[seen]}
        if not bool(scoring.seen[number, place, seen]):
            raise EngineError(
                f"the mask hides key {seen} ({keys[seen]!r}) from query {place} ({queries[place]!r}), so there is no "
                "score; choose another key"
            )
        rows = yield from _of_cell(model, layer, scoring, (number, place, seen), stored, query)
        lacking = token_tables(model).lacking(layer.stack, "tokens")
        cells = ([(row | ends).get(column, NOTHING) for column in EXPLAIN.columns[3:]] for row in rows)
        yield RowGroup([(*place_cells(layer, number), *row) for row in cells], lacking=lacking)


def _of_cell(
    model: OpenModel,
    layer: LayerOutline,
    scoring: ScoreFormula,
    cell: tuple[int, int, int],
    stored: Mapping[str, FloatArray],
    query: Query,
) -> Work[list[dict[str, Cell]]]:
    """List the terms of a cell's score, and the score itself, by column."""
    number, place, key = cell
    sides = (
        replace(scoring.side("Q", number, place), epsilon=float(stored["Q"][number])),
        replace(scoring.side("K", number, key), epsilon=float(stored["K"][number])),
    )
    scale = float(scoring.scales[number])
    found = score_terms(*sides, scale)
    terms = sorted((*_pairs(found), *_other_terms(found, sides, scoring, cell)), key=lambda term: -abs(term.value))
    claimed = [term.places[0] for term in terms if term.places and not term.note]
    tokens = yield from _tokens(model, layer, found, claimed[: query.first], query.top)
    tables = token_tables(model)
    unnamed = "" if tokens else tables.why_none(tables.of_stack(layer.stack).queries)
    draws = chance_of(layer, False)
    norm = abs(scale) * math.prod(float(side.weight.norm()) for side in sides)
    spectrum = draws["QK"].mean(0) * norm if draws else None
    total = 0.0
    rows: list[dict[str, Cell]] = []
    for term in terms:
        total += term.value
        row: dict[str, Cell] = {"term": term.name, "value": term.value, "value_chance": term.chance}
        row |= {"cumulative": total, "kind": term.kind, "note": term.note}
        if term.places is not None:
            start, end = term.places
            row |= {"singular_value": float(found.sigma[start]), "index": start + 1, "last_index": end + 1}
            row |= {} if spectrum is None else {"singular_value_chance": float(spectrum[start])}
            if not term.note:  # a pair by itself
                row |= {"query_projection": float(found.query[start]), "query_projection_chance": found.sizes[0]}
                row |= {"key_projection": float(found.key[start]), "key_projection_chance": found.sizes[1]}
                row |= {"note": unnamed, **tokens.get(start, {})}
        rows.append(row)
    own = float(scoring.scores[cell])
    left = own - total
    allowed = TOLERANCES[scoring.dtype] * max(1.0, float(scoring.scores[number][scoring.seen[number]].abs().amax()))
    if not abs(left) <= allowed:
        raise EngineError(
            f"{left:.3g} of the score {own:.4g} is in no term that attn-tui knows, so the score cannot be explained"
        )
    rows += [
        {"term": name, "value": value, "kind": kind, "note": note}
        for name, value, kind, note in (
            ("sum of the terms", total, "total", ""),
            ("the model's score", own, "model", "before the softmax, computed by the model"),
            ("unexplained", left, "unexplained", "rounding of the model's own arithmetic"),
            ("attention weight", float(scoring.weights[cell]), "weight", "after the softmax"),
        )
    ]
    rows[-4] |= {"value_chance": _chance_of_sum(terms), "cumulative": total}
    rows[-1] |= {"value_chance": 1 / int(scoring.seen[number, place].sum())}
    return rows


def _tokens(
    model: OpenModel, layer: LayerOutline, found: ScoreTerms, places: list[int], top: int
) -> Work[dict[int, dict[str, Cell]]]:
    """Name the tokens of pairs: by place and column, those at the ends of the query's and the key's directions."""
    tables = token_tables(model)
    names = tables.of_stack(layer.stack)
    named: dict[int, dict[str, Cell]] = {}
    for column, table, vectors, met in (
        ("query_tokens", tables.tokens(names.queries, layer.d_model), found.left, found.query),
        ("key_tokens", tables.tokens(names.source, layer.d_source), found.right, found.key),
    ):
        texts = yield from _at_ends(model, table, vectors[:, places], met[places], top)
        for place, text in zip(places, texts, strict=False):
            named.setdefault(place, {})[column] = text
    return named


def _at_ends(model: OpenModel, table: TokenTable | None, vectors: Tensor, met: Tensor, top: int) -> Work[list[str]]:
    """Name the tokens with the largest projections on directions (d, n), each negated if ``met`` is negative."""
    if table is None or not len(table.ids) or table.rows.shape[1] != len(vectors) or not len(met):
        return []
    signs = torch.where(met < 0, -1.0, 1.0).to(vectors)
    projected = yield from table.project(model, vectors * signs)
    rows = projected.topk(min(top, projected.shape[1])).indices
    texts = model.words().texts([table.ids[row] for row in rows.flatten().tolist()])
    width = rows.shape[1]
    return [join_tokens(texts[start : start + width]) for start in range(0, len(texts), width)]


def join_tokens(tokens: Sequence[str]) -> str:
    r"""Join tokens with ``|`` into one cell that can be split again.

    A ``|`` in a token gets a backslash; backslashes right before a ``|`` are doubled.

    Examples
    --------
    >>> print(join_tokens([r"\x04", "|", "\\", "b"]))
    \x04|\||\\|b
    """
    inside = [re.sub(r"(\\*)\|", r"\1\1\\|", token) for token in tokens]
    return "|".join([*(re.sub(r"(\\+)\Z", r"\1\1", token) for token in inside[:-1]), *inside[-1:]])


def _place(what: str, asked: int | None, tokens: Sequence[str], otherwise: int) -> int:
    if asked is not None and not 0 <= asked < len(tokens):
        raise EngineError(f"the sentence has no {what} {asked}; it has {len(tokens)}, 0 to {len(tokens) - 1}")
    return otherwise if asked is None else asked


def _pairs(found: ScoreTerms) -> Iterator[Term]:
    """Yield the terms of singular pairs; pairs of nearly equal singular values, and the null space, are one term."""
    sigma = found.sigma.numpy()
    rank = int(numerical_rank(sigma, found.noise))
    spans = list(dict.fromkeys(groups(sigma[:rank]))) if rank else []
    if rank < len(sigma):
        spans.append((rank, len(sigma) - 1))
    for start, end in spans:
        value, chance = float(found.values[start : end + 1].sum()), float(found.chance[start : end + 1].norm())
        if start == rank:
            name, note = "null space", "singular values that are zero within rounding"
        elif start == end:
            name, note = f"pair {start + 1}", ""
        else:
            name = f"pairs {start + 1}-{end + 1}"
            note = "their singular values are nearly equal: no direction is singled out"
        yield Term(name, "content", value, chance, (start, end), note)


def _other_terms(
    found: ScoreTerms, sides: tuple[ScoreSide, ScoreSide], scoring: ScoreFormula, cell: tuple[int, int, int]
) -> Iterator[Term]:
    has_query, has_key = (
        bool(side.rest.norm() > ROUNDING * (side.weight @ side.read + side.rest).norm()) for side in sides
    )
    are_there = has_query, has_key, has_query and has_key
    chances: tuple[Cell, ...] = (*found.rests_chance, NOTHING)
    for is_there, (name, note), value, chance in zip(are_there, BIASES, found.rests, chances, strict=True):
        if is_there:
            yield Term(name, "bias", value, chance, note=note)
    product = float(found.values.sum()) + found.rests[0] + found.rests[1] + found.rests[2]
    if (capped := scoring.cap_score(product)) != product:
        yield Term("soft cap", "cap", capped - product, note="what the soft cap takes off the score")
    if (added := float(scoring.added[cell])) != 0:
        note = "added to the product of query and key: a relative bias, ALiBi, position terms, a mask"
        yield Term("position bias", "position", added, note=note)


def _chance_of_sum(terms: Sequence[Term]) -> Cell:
    """Compute the root mean square of the sum of all terms, with terms without chance fixed; empty for a soft cap.

    In random directions the signs of terms are independent, so their mean squares add up.
    """
    if any(term.kind == "cap" for term in terms):
        return NOTHING
    fixed = math.fsum(term.value for term in terms if term.chance == NOTHING)
    return math.hypot(fixed, *(float(term.chance or 0) for term in terms if term.chance != NOTHING))
