"""The check of the open model's heads, a row a layer as the results come."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from engine.service.engine import Engine
from engine.values.display_text import quantity
from engine.values.errors import EngineError, Superseded
from engine.values.outline import Finding, LayerProof
from engine.values.progress import Progress
from tui.drawing.progress import progress_text
from tui.screens.modal import ListScreen
from tui.toolkit.application import start_work

EXPLANATION = (
    "Heads write: added up, what they write is what the layer's attention writes. Heads look: their probabilities "
    "follow from their queries and keys. The number is the largest difference."
)


def describe_finding(finding: Finding) -> str:
    """Write one finding: ``verified with query/key norm, 2e-07``."""
    link = " with" if finding.holds else ":"
    said = f"{finding.verdict}{link} {finding.note}" if finding.note else finding.verdict
    return said if math.isnan(finding.residual) else f"{said}, {finding.residual:.0e}"


def describe_proof(proof: LayerProof) -> tuple[str, str, str]:
    """Write a layer's name and its two findings."""
    return f"{proof.layer.stack} {proof.layer}", describe_finding(proof.output), describe_finding(proof.scores)


def summarise(proofs: Iterable[LayerProof]) -> str:
    """Count the layers by the result of their check: ``12 layers: 12 verified``."""
    states = [{proof.output.holds, proof.scores.holds} for proof in proofs]
    wrong = sum(False in state for state in states)
    verified = sum(state == {True} for state in states)
    parts = [f"{verified} verified"]
    parts += [f"{wrong} WRONG"] if wrong else []
    rest = len(states) - wrong - verified
    parts += [f"{rest} partly unverifiable"] if rest else []
    return f"{quantity(len(states), 'layer')}: {', '.join(parts)}"


class CheckScreen(ListScreen):
    """Checks the heads of every layer against the model's own numbers and lists the results."""

    heading = "check"

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._proofs: list[LayerProof] = []

    def on_mount(self) -> None:
        """Start the check."""
        self._show("running the model on a few tokens …")
        start_work(self, self._check, "check")

    def _list(self, proof: LayerProof, progress: Progress) -> None:
        self._proofs.append(proof)
        self._show(summarise(self._proofs) if progress.finished else progress_text(progress))

    async def _check(self) -> None:
        def deliver(proof: LayerProof, progress: Progress) -> None:
            self.call_later(self._list, proof, progress)  # from another thread

        try:
            await asyncio.wrap_future(self._engine.check(deliver))
        except Superseded:
            return
        except EngineError as error:
            self._show(str(error))

    def _show(self, state: str) -> None:
        table = Table(box=None, pad_edge=False, show_edge=False, expand=True)
        for title in ("layer", "heads write", "heads look"):
            table.add_column(Text(title, style="bold"), ratio=None if title == "layer" else 1)
        for proof in self._proofs:
            table.add_row(*map(Text, describe_proof(proof)))
        self.body.update(Group(Text(state, style="bold"), Text(EXPLANATION), Text(""), table))
