"""The rows of the ``weights`` table: every parameter at once, what is tied a little later, norms as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from engine.service.loading import Beside, collector_at_rest, torch_import
from engine.service.pace import Pace
from engine.values.errors import EngineError, Superseded
from engine.values.model import Parameter
from engine.values.progress import Progress
from engine.values.tables import Cell
from engine.values.view import Query

if TYPE_CHECKING:
    from torch import Tensor

    from engine.service.session import Breathe, Session

Rows = tuple[tuple[Cell, ...], ...]


class WeightsTable:
    """Lists parameters and measures them, one tensor at a time and each once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listed: tuple[Parameter, ...] | None = None
        self._listing = Beside(self._list)
        self._measured: dict[str, tuple[Cell, str]] = {}

    def growing(self, query: Query, breathe: Breathe) -> Iterator[tuple[Rows, Progress]]:
        """Yield the rows as more of them becomes known; the last ones are complete.

        The files' headers alone give the first; then comes what the model ties, which takes the import of its code;
        then, where the query wants them, norms.
        """
        source = self._session.source
        if self._listed is None:
            yield self._rows(source.parameters(with_ties=False), query), Progress("ties", 0, 0, "")
            torch_import.wait(breathe)
            self._listed = self._listing.wait(breathe)
        yield self._rows(self._listed, query), Progress("ties", 1, 1, "")
        if not query.norms:
            return
        wanted = _narrowed(self._listed, query)
        by_name = {each.name: each for each in self._listed}
        pace = Pace()
        for done, parameter in enumerate(wanted):
            breathe()
            self._measure(parameter, by_name, breathe)
            if pace.is_due():
                yield self._rows(self._listed, query), Progress("norms", done + 1, len(wanted), "tensors")
                pace.delivered()
        yield self._rows(self._listed, query), Progress("norms", len(wanted), len(wanted), "tensors")

    def _list(self) -> tuple[Parameter, ...]:
        """List the parameters with what is tied, on a thread beside this one."""
        with collector_at_rest():
            return self._session.source.parameters()

    def _rows(self, listed: tuple[Parameter, ...], query: Query) -> Rows:
        """Write what is known of the parameters that are asked for."""
        nothing: tuple[Cell, str] = ("", "")
        return tuple(
            (
                each.name, "x".join(map(str, each.shape)), each.dtype, each.parameters, each.tied_to, each.stored_bytes,
                *(self._measured.get(each.name, nothing) if query.norms else nothing),
            )
            for each in _narrowed(listed, query)
        )  # fmt: skip

    def _measure(self, parameter: Parameter, by_name: Mapping[str, Parameter], breathe: Breathe) -> None:
        """Find a parameter's norm, or why it has none, and whether the same numbers are stored under another name."""
        name, tied_to = parameter.name, parameter.tied_to
        if name in self._measured:
            return
        if tied_to:
            self._measure(by_name[tied_to], by_name, breathe)
        if tied_to and not parameter.stored_bytes:
            self._measured[name] = self._measured[tied_to][0], ""
            return
        try:
            norm = self._norm(name, breathe)
        except Unmeasured as reason:
            self._measured[name] = "", str(reason)
            return
        self._measured[name] = norm, self._twice(parameter, norm, by_name, breathe)

    def _norm(self, name: str, breathe: Breathe) -> float:
        """Measure one tensor, and look for more urgent work after every part of it.

        Raises
        ------
        Unmeasured : where it holds no numbers of a weight, or cannot be read.
        """
        from engine.mathematics.norms import frobenius_norm

        def parts() -> Iterator[Tensor]:
            for part in self._session.source.parts(name):
                if not part.is_floating_point():
                    raise Unmeasured(f"{str(part.dtype).removeprefix('torch.')} numbers, which are no weights")
                yield part
                breathe()

        try:
            return frobenius_norm(parts())
        except Superseded:
            raise
        except (EngineError, RuntimeError) as error:
            raise Unmeasured(" ".join(str(error).split())) from error

    def _twice(self, parameter: Parameter, norm: float, by_name: Mapping[str, Parameter], breathe: Breathe) -> str:
        """Say where the same numbers are stored as well, or other numbers under a tied name."""
        if parameter.tied_to:
            is_same = self._is_same(parameter.name, parameter.tied_to, breathe)
            return "stored a second time" if is_same else f"stored by itself, and other than {parameter.tied_to}"
        if not _may_be_vocabulary(parameter) or not norm > 0:
            return ""
        for other in by_name.values():
            is_alike = _may_be_vocabulary(other) and other.shape == parameter.shape and other.name != parameter.name
            has_its_norm = is_alike and self._measured.get(other.name, ("", ""))[0] == norm
            if has_its_norm and self._is_same(parameter.name, other.name, breathe):
                return f"the same numbers as {other.name}, not tied"
        return ""

    def _is_same(self, one: str, other: str, breathe: Breathe) -> bool:
        """Compare two tensors number by number."""
        source = self._session.source
        for ours, theirs in zip(source.parts(one), source.parts(other), strict=True):
            breathe()
            if ours.dtype != theirs.dtype or not bool((ours == theirs).all()):
                return False
        return True


class Unmeasured(Exception):
    """Why a tensor has no norm."""


def _narrowed(listed: tuple[Parameter, ...], query: Query) -> tuple[Parameter, ...]:
    """Take the parameters of one layer's number, whatever stack it is in, or all of them."""
    return tuple(each for each in listed if query.layer is None or each.layer == query.layer.layer)


def _may_be_vocabulary(parameter: Parameter) -> bool:
    """Say whether a parameter may be an embedding or unembedding: a matrix that belongs to no layer."""
    return len(parameter.shape) == 2 and parameter.layer is None
