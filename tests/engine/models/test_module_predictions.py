"""What a module of somebody else's predicts, where what it returns can be told to be logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.views import PREDICTIONS, Query
from tests.handmade import VOCABULARY, WIDTH, FusedCausal, RawParameters, Speaker


class Packed(nn.Module):
    """A language model that returns more than its logits, or those of the last token alone."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.inner, self.form = Speaker(FusedCausal), form
        self.kinds = nn.Embedding(WIDTH, 1)  # as many as the stream is wide

    def forward(self, ids: Tensor) -> Any:
        logits = self.inner(ids)
        forms = {
            "loss beside": {"loss": logits.sum(), "logits": logits},
            "last alone": (logits[:, -1:], None),
            "stream beside": (logits, self.inner.words(ids)),
            "probabilities": logits.softmax(-1),
            "none below zero": logits - logits.min(),
        }
        return forms.get(self.form, (logits, logits.softmax(-1)))


@pytest.mark.parametrize(
    "form", ["plain", "loss beside", "last alone", "stream beside", "probabilities", "none below zero"]
)
def test_what_returns_logits_has_predictions(form: str) -> None:
    torch.manual_seed(0)
    model = Speaker(FusedCausal) if form == "plain" else Packed(form)
    opened = Engine.of_module(model, None, "mine", None)
    opened.open("mine", lambda progress: None).result()
    ids = [3, 17, 5, 22]
    text = " ".join(map(str, ids))
    speaker = model if isinstance(model, Speaker) else model.inner
    with torch.no_grad():
        expected = speaker.eval()(torch.tensor([ids]))[0].double()
    for position in (None, 1):
        query = Query(text=text, position=position, top=3)
        if form == "last alone" and position is not None:
            with pytest.raises(EngineError, match="of the last token alone, 3; leave the position out"):
                opened.table("predictions", query).result()
            continue
        found = [
            dict(zip(PREDICTIONS.columns, row, strict=True)) for row in opened.table("predictions", query).result()
        ]
        own = expected[-1 if position is None else position]
        order = own.argsort(descending=True)[:3].tolist()
        assert [row["token_id"] for row in found] == order
        assert [row["at"] for row in found] == [str(ids[-1 if position is None else position])] * 3
        assert [row["probability"] for row in found] == pytest.approx(own.softmax(0)[order].tolist(), rel=1e-4)
    opened.stop()


def test_what_returns_no_logits_that_can_be_told_says_so() -> None:
    for model, said in (
        (Packed("twice"), "several tensors of the shape of logits"),
        (Speaker(RawParameters), "its tokens look both ways"),
        (nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), FusedCausal()), "no tensor of the shape of logits"),
    ):
        opened = Engine.of_module(model, None, "mine", None)
        opened.open("mine", lambda progress: None).result()
        with pytest.raises(EngineError, match=said):
            opened.table("predictions", Query(text="1 2 3")).result()
        opened.stop()
