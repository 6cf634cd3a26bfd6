"""What an open model predicts: the model with its head, and the sentence that was asked about last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.values.errors import EngineError
from engine.values.view import Query

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.predictor import Asked, Predictor
    from engine.models.tokenizer import Words
    from engine.service.session import Breathe, Session


class Predicting:
    """A model's head, which is put on at the first prediction; belongs to the engine thread.

    Parameters
    ----------
    session : the open model.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._predictor: Predictor | None = None
        self._last: tuple[tuple[str, int | None], Asked, Tensor] | None = None

    def predictor(self, breathe: Breathe) -> Predictor:
        """Give the model with its head.

        Raises
        ------
        EngineError : when it has none, or is no model of transformers.
        """
        if self._predictor is None:
            reader = self._session.reader(breathe)
            from engine.models.predictor import Predictor
            from engine.models.sentence import Reader

            if not isinstance(reader, Reader):
                raise EngineError(
                    f"{self._session.outline.name} is no model of transformers; of what it predicts there are the "
                    "predictions alone, and neither lens nor contributions nor heads switched off"
                )
            self._predictor = Predictor(reader, self._session.source.tensors)
        return self._predictor

    def asked(self, query: Query, breathe: Breathe) -> tuple[Predictor, Asked, Tensor]:
        """Read a sentence, and give the logits, (vocabulary,), at the token that a query names.

        Raises
        ------
        EngineError : when there is no such token, or nothing can be predicted.
        """
        predictor = self.predictor(breathe)
        key = (query.text or "", query.position)
        if self._last is None or self._last[0] != key:
            asked = predictor.ask(*key)
            logits = predictor.logits(asked, breathe)
            if not bool(logits.isfinite().all()):
                self._refuse_broken(predictor, logits, breathe)
            self._last = (key, asked, logits)
        return predictor, *self._last[1:]

    def _refuse_broken(self, predictor: Predictor, logits: Tensor, breathe: Breathe) -> None:
        """Refuse logits that are NaN, or infinite by the weights; some types say so of tokens that never come.

        Raises
        ------
        EngineError : naming what they are due to.
        """
        from engine.models.broken import broken_parameter, cause_of_nan

        said = f"the logits that {predictor.name} gives here are %s, nothing is predicted: %s"
        if bool(logits.isnan().any()):
            raise EngineError(said % ("NaN", cause_of_nan(predictor.model, breathe)))
        if (broken := broken_parameter(predictor.model, predictor.model, breathe)) is not None:
            raise EngineError(said % ("infinite", broken))

    def choices(self, query: Query, breathe: Breathe) -> tuple[Words, Asked, Tensor]:
        """Read a sentence, and give what names its tokens, and the logits at the one that a query names.

        Of a module that is no model of transformers this is all that can be had.

        Raises
        ------
        EngineError : when there is no such token, or nothing can be predicted.
        """
        reader = self._session.reader(breathe)
        from engine.models.module_reader import ModuleReader

        if isinstance(reader, ModuleReader):
            return reader.words, *reader.predicted(query.text or "", query.position, breathe)
        predictor, asked, logits = self.asked(query, breathe)
        return predictor.words, asked, logits

    def token(self, query: Query, logits: Tensor, predictor: Predictor) -> int:
        """Find the token that a query names: the model's first choice unless it names one."""
        return int(logits.argmax()) if query.token is None else predictor.token(query.token, len(logits))
