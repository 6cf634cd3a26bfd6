"""Moves that are made while what they are made on is worked out, and made, or made again, where that has come."""

from __future__ import annotations

from collections.abc import Callable

Move = Callable[[], None]


class KeptMoves:
    """Remembers moves from the moment that other rows are expected.

    Attributes
    ----------
    is_expecting : whether rows are to come.
    begun : the column that the cursor was on then, and the names of all columns.
    has_been_empty : whether there were no rows for a moment since, on which a move could have been made.
    """

    def __init__(self) -> None:
        self.is_expecting = False
        self.begun: tuple[int, tuple[str, ...]] = (0, ())
        self.has_been_empty = False
        self._rows: object = None
        self._moves: list[Move] = []

    def expect(self, rows: object, column: int, columns: tuple[str, ...], *, is_empty: bool) -> None:
        """Begin to remember, unless it is for the same rows; of rows that are None it is not known yet which come."""
        if self.is_expecting and (rows is None or self._rows in (None, rows)):
            self._rows = self._rows if rows is None else rows
            return
        self.is_expecting, self._rows, self._moves = True, rows, []
        self.begun, self.has_been_empty = (column, columns), is_empty

    def add(self, move: Move) -> None:
        """Remember a move, where rows are expected."""
        if self.is_expecting:
            self._moves.append(move)

    def forget(self) -> None:
        """Make nothing of what has been remembered, such as after a look at something else."""
        self._moves = []

    def take(self) -> list[Move]:
        """Give what has been remembered; nothing is expected any more."""
        moves, self._moves, self.is_expecting = self._moves, [], False
        return moves


class MovesAhead:
    """Remembers moves that are made before there is anything to make them on, which is expected to begin with."""

    def __init__(self) -> None:
        self._moves: list[Move] | None = []
        """None where nothing is expected."""

    def expect(self, is_expected: bool) -> None:
        """Keep moves from now on, or keep none, as there will be nothing to make them on."""
        if not is_expected:
            self._moves = None
        elif self._moves is None:
            self._moves = []

    def add(self, move: Move) -> None:
        """Remember a move, where something is expected."""
        if self._moves is not None:
            self._moves.append(move)

    @property
    def has_moves(self) -> bool:
        """Whether any are remembered."""
        return bool(self._moves)

    def make(self) -> None:
        """Make the moves that are remembered; nothing is expected any more."""
        moves, self._moves = self._moves or (), None
        for move in moves:
            move()
