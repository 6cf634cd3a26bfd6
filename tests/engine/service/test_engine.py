"""A sweep computes all heads and then all layers, and what is selected comes before its next step."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from engine.values.heads import Head
from engine.values.progress import Progress
from tests.conftest import TinyModel
from tests.engine.mathematics.dense_spectra import assert_same_spectra
from tests.opening import PATIENCE, start_engine


def answer(future: Future[Any]) -> Any:
    return future.result(PATIENCE)


def test_the_sweep_computes_heads_and_then_whole_layers(tiny_model: TinyModel) -> None:
    engine = start_engine(tiny_model("llama", num_hidden_layers=3))
    delivered: list[tuple[Head, bool, Any, Progress]] = []
    answer(engine.sweep(lambda *step: delivered.append(step)))
    assert [(name.layer, whole) for name, whole, _, _ in delivered] == [
        (0, False), (1, False), (2, False), (0, True), (1, True), (2, True),
    ]  # fmt: skip
    progress = [(each.done, each.total, each.finished) for *_, each in delivered]
    assert progress == [(4, 12, False), (8, 12, False), (12, 12, True), (1, 3, False), (2, 3, False), (3, 3, True)]
    for name, whole, group, _ in delivered:
        assert_same_spectra(answer(engine.spectra(name, whole)), group)


def test_a_selected_head_comes_before_the_rest_of_the_sweep(tiny_model: TinyModel) -> None:
    engine = start_engine(tiny_model("llama", num_hidden_layers=6))
    order: list[str] = []

    def deliver(name: Head, whole: bool, *_: object) -> None:
        order.append(f"sweep {name}{' whole' if whole else ''}")
        if len(order) == 1:
            selected = engine.spectra(Head("decoder", 5), whole_layer=False, view="spectra")
            selected.add_done_callback(lambda future: order.append("selected"))

    answer(engine.sweep(deliver))
    assert order[:3] == ["sweep L0", "selected", "sweep L1"]
