"""What can be asked about an open model's weights: their spectra, what chance gives, and the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from engine.service.open_model import OpenModel
from engine.service.thread import Breathe, Urgency
from engine.values.heads import MATRICES

if TYPE_CHECKING:
    import numpy as np

    from engine.service.session import Session
    from engine.values.errors import EngineError
    from engine.values.heads import Head
    from engine.values.progress import Progress
    from engine.values.spectra import SpectraGroup, Spectrum


class SpectraRequests(OpenModel):
    """Requests that no sentence is needed for; the model itself is not loaded."""

    def spectra(
        self,
        layer: Head,
        whole_layer: bool,
        view: str = "",
        distance: int | None = None,
        matrices: tuple[str, ...] = MATRICES,
    ) -> Future[SpectraGroup]:
        """Ask for the spectra of all heads of a layer, or of matrices of the layer as a whole, QK's at a distance."""

        def work(session: Session, breathe: Breathe) -> SpectraGroup:
            if distance is None:
                return session.spectra(layer, whole_layer, breathe, matrices)
            return session.spectra_at(layer, whole_layer, distance, breathe, matrices)

        return self._ask(work, self._urgency(layer, whole_layer), view)

    def head_spectra(self, head: Head, view: str = "", distance: int | None = None) -> Future[tuple[Spectrum, ...]]:
        """Ask for one head's six spectra, before those of its layer's other heads."""

        def work(session: Session, breathe: Breathe) -> tuple[Spectrum, ...]:
            if distance is None:
                return session.head_spectra(head, breathe)
            return session.head_spectra_at(head, distance, breathe)

        return self._ask(work, Urgency.SELECTED, view)

    def other_spectra(
        self,
        layer: Head,
        whole_layer: bool,
        view: str = "",
        distance: int | None = None,
        matrices: tuple[str, ...] = MATRICES,
    ) -> Future[SpectraGroup]:
        """Ask for the second model's spectra of all heads of a layer, or of matrices of the layer as a whole."""

        def work(session: Session, breathe: Breathe) -> SpectraGroup:
            return self._both(session, breathe).spectra(layer, whole_layer, distance, breathe, matrices)

        return self._ask(work, self._urgency(layer, whole_layer), view)

    def arrays(self, layer: Head) -> Future[dict[Head, dict[str, np.ndarray[Any, Any]]]]:
        """Ask for every head's weights of a layer."""
        return self._ask(lambda session, breathe: session.arrays(layer), Urgency.SELECTED)

    def sweep(self, deliver: Callable[[Head, bool, SpectraGroup | EngineError, Progress], None]) -> Future[None]:
        """Compute all spectra of the model in the background.

        Parameters
        ----------
        deliver : called on the engine thread with a layer, whether the layer as a whole is meant, its spectra
            or why there are none, and how far the sweep has come.
        """

        def work(session: Session, breathe: Breathe) -> None:
            for step in session.sweep(breathe):
                deliver(*step)
            if self._models is not None:
                for _ in self._models.other.sweep(breathe):
                    pass  # so that both are there when they are compared

        return self._ask(work, Urgency.SWEEP, "sweep")

    def _urgency(self, layer: Head, whole_layer: bool) -> Urgency:
        """Let whatever else is looked at come before a large layer as a whole, which takes minutes; not a refusal."""
        if not whole_layer or self._session is None:
            return Urgency.SELECTED
        from engine.service.whole_layers import is_left_out

        found = next((each for each in self._session.outline.layers if each.name == layer.whole_layer), None)
        is_begun = found is not None and found.is_large and not (self._options.is_browsing and is_left_out(found))
        return Urgency.LARGE if is_begun else Urgency.SELECTED
