"""The table of a row and a column of a map: what the coloured text shows, as it is written and copied."""

from __future__ import annotations

from engine.values.attention import MapLines, Spelling
from engine.values.table import TEXT_COLUMNS, Cell, Table

Spellings = tuple[Spelling, ...]


def lines_table(lines: MapLines, spellings: tuple[Spellings, Spellings]) -> Table:
    """List a row for each token; of two texts, those of one after those of the other.

    Parameters
    ----------
    lines : the row and the column.
    spellings : what the tokens along the queries, and along the keys, stand for.
    """
    place: tuple[Cell, ...] = (lines.name.stack, lines.name.layer_label, lines.name.head_label)
    place = (*place, lines.query, lines.key)
    queries = zip(lines.query_tokens, spellings[0], lines.column.tolist(), strict=True)
    keys = zip(lines.key_tokens, spellings[1], lines.row.tolist(), strict=True)
    rows: list[tuple[Cell, ...]] = []
    if lines.is_of_one_text:
        for at, ((token, spelling, weight), (_, _, as_key)) in enumerate(zip(queries, keys, strict=True)):
            rows.append((*place, at, token, spelling.kind, as_key, weight))
    else:
        rows += [(*place, at, token, each.kind, weight, None) for at, (token, each, weight) in enumerate(keys)]
        rows += [(*place, at, token, each.kind, None, weight) for at, (token, each, weight) in enumerate(queries)]
    return Table.of_rows("text", TEXT_COLUMNS, rows)
