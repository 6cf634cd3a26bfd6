"""The tables: one value with named columns that a widget draws, a key exports and the command line prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from engine.values.heads import Head

Cell = str | int | float

RANK_COLUMNS = (
    "stack", "layer", "head", "matrix", "rows", "cols",
    "energy_rank", "numerical_rank", "effective_rank", "stable_rank", "participation_ratio",
    "spectral_norm", "frobenius_norm", "nuclear_norm", "condition_number",
)  # fmt: skip
"""Of a spectrum by itself."""
RANKS_BESIDE_CHANCE_COLUMNS = (*RANK_COLUMNS, *(f"{measure}_chance" for measure in RANK_COLUMNS[6:]))
SPECTRUM_COLUMNS = (
    "stack", "layer", "head", "matrix", "index", "singular_value", "energy", "cumulative_energy", "chance",
)  # fmt: skip
SPECTRA_OF_TWO_COLUMNS = (*SPECTRUM_COLUMNS, "singular_value_other")
ATTENTION_COLUMNS = ("stack", "layer", "head", "query", "key", "query_token", "key_token", "weight", "weight_chance")
ROLLOUT_COLUMNS = ("stack", "query", "key", "query_token", "key_token", "weight", "weight_chance")
DIFFERENCE_COLUMNS = (*ATTENTION_COLUMNS, "weight_other", "difference")
TEXT_COLUMNS = (
    "stack", "layer", "head", "query", "key", "position", "token", "kind", "weight_as_key", "weight_as_query",
)  # fmt: skip
DIFFERENCE_OF_HEADS_COLUMNS = (*DIFFERENCE_COLUMNS, "other_stack", "other_layer", "other_head")
BLOCK_COLUMNS = ("stack", "layer", "head", "query", "last_query", "key", "last_key", "max_weight", "mean_weight")
PROOF_COLUMNS = ("stack", "layer", "identity", "verdict", "residual", "note")


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    Attributes
    ----------
    view : which table it is: ``ranks``, ``spectrum``, ``attention``, ``check``, or the name of a `View`.
    columns : the names, in order.
    rows : each as long as ``columns``. A table of millions of rows may be a one-time iterator.
    left_out : layers that have no rows because their weights hold NaN or infinite numbers, and which those are.
    lacking : what has been left empty in the rows because tensors outside the layers hold such numbers, and which.
    """

    view: str
    columns: tuple[str, ...]
    rows: Iterable[Sequence[Cell]]
    left_out: Mapping[Head, str] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Sequence[Cell]]:
        """Iterate over the rows."""
        return iter(self.rows)
