"""What is shown is one value, changed in one place."""

from __future__ import annotations

from engine.values.heads import Head, Off
from tui.state.marked_heads import compared_heads, compared_pair, off_fields, toggle_pin
from tui.state.overview_measures import measure_fields, overview_fields
from tui.state.session import Session, Shown


def test_followers_are_told_once_of_the_fields_that_changed() -> None:
    session, told = Session(), list[frozenset[str]]()
    session.follow(told.append)
    assert session.change(distance=2, epsilon=0.05, view=session.shown.view)
    assert not session.change(distance=2)
    assert told == [frozenset(("distance", "epsilon"))]


def test_the_overview_of_a_matrix_and_the_ranks_show_one_measure() -> None:
    session = Session()
    session.change(**overview_fields("qk_stable_rank"))
    assert session.shown.measure == "stable_rank"
    session.change(**measure_fields(session.shown, "effective_rank"))
    assert session.shown.overview == "qk_effective_rank"
    session.change(**overview_fields("entropy"))
    session.change(**measure_fields(session.shown, "spectral_norm"))
    assert (session.shown.overview, session.shown.measure) == ("entropy", "spectral_norm")


def test_a_difference_of_maps_ends_with_the_last_head_that_is_off() -> None:
    shown = Shown(off=Off((Head("decoder", 1, 2),)), difference=True)
    assert off_fields(shown, Off(()), is_comparing=False) == {"off": Off(()), "difference": False}


def test_pinned_heads_are_compared_in_order_and_then_the_selected_one() -> None:
    session = Session()
    first, second, third = (Head("decoder", 0, number) for number in range(3))
    for head in (second, first):
        assert toggle_pin(session, head, "P") == ""
    session.change(selected=third)
    assert compared_heads(session.shown) == (second, first, third)
    assert compared_pair(session.shown) == (second, third)
    session.change(selected=second)
    assert compared_pair(session.shown) == (second, first)
