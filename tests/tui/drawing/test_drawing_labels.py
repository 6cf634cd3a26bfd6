"""How tokens become labels of one width, whatever is in them, and where they stand."""

from __future__ import annotations

import unicodedata

import pytest
from rich.cells import cell_len

from tests.tui.painted import NASTY
from tui.drawing.axes import lay_out, lay_out_blocks
from tui.drawing.text import ROOM, centred, clusters, downwards, fit, harmless, in_ascii, label


@pytest.mark.parametrize("token", NASTY)
def test_no_label_holds_a_control_character_or_a_half_of_a_surrogate_pair(token: str) -> None:
    for text in (harmless(token), label(token), fit(harmless(token), 7), *downwards(label(token), 6)):
        assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        text.encode("utf-8")


@pytest.mark.parametrize("token", NASTY)
@pytest.mark.parametrize("width", [0, 1, 2, 3, 5, 8])
def test_fitted_text_has_exactly_its_width(token: str, width: int) -> None:
    for ascii_only in (False, True):
        text = label(token, ascii_only=ascii_only)
        assert cell_len(fit(text, width, ascii_only=ascii_only)) == width
        assert cell_len(fit(text, width, align="right", ascii_only=ascii_only)) == width


@pytest.mark.parametrize("token", NASTY)
@pytest.mark.parametrize("height", [0, 1, 2, 6])
def test_text_written_downwards_is_two_cells_wide_on_every_line(token: str, height: int) -> None:
    lines = downwards(label(token), height)
    assert [cell_len(line) for line in lines] == [2] * height


@pytest.mark.parametrize("token", NASTY)
def test_in_ascii_everything_is_ascii(token: str) -> None:
    assert label(token, ascii_only=True).isascii()
    assert "".join(downwards(label(token, ascii_only=True), 4, ascii_only=True)).isascii()


def test_markup_and_escape_sequences_are_shown_literally() -> None:
    assert label("[bold]") == "[bold]"
    assert label("\x1b[31m") == r"\x1b[31m"
    assert label("\n") == r"\n"


def test_labels_drop_the_spaces_around_a_token_unless_it_has_nothing_else() -> None:
    assert [label(token) for token in (" cat", "cat ", "  ", "")] == ["cat", "cat", "␣␣", "∅"]


def test_combining_marks_stay_with_their_letter_and_a_lone_mark_gets_a_circle() -> None:
    assert list(clusters("e\u0301a")) == [("e\u0301", 1), ("a", 1)]
    assert harmless("\u0301x") == "◌\u0301x"


@pytest.mark.parametrize("joiner", ["\u200d", "\ufe0e", "\ufe0f", "\U0001f3fb", "\U0001f3ff"])
def test_what_joins_or_colours_is_seen_where_it_is_all_there_is(joiner: str) -> None:
    escaped = joiner.encode("unicode_escape").decode()
    assert harmless(joiner) == label(joiner) == escaped
    assert harmless(f" {joiner}{joiner}") == f" {escaped}", "the second has what it belongs to"
    assert harmless(f"\U0001f44d{joiner}") == "\U0001f44d"


@pytest.mark.parametrize("text", ["हि", "हिन्दी", "ि", "কো", "हींa"])
def test_a_spacing_mark_has_a_cell_of_its_own_behind_its_letter(text: str) -> None:
    shown = harmless(text)
    marks = sum(unicodedata.category(each) == "Mc" for each in text)
    letters = sum(unicodedata.category(each)[0] == "L" for each in text) or 1  # a lone mark stands on a circle
    assert cell_len(shown) == letters + marks
    assert harmless(shown) == shown
    assert shown.replace(ROOM, "").removeprefix("◌") == text
    assert in_ascii(shown).isascii()
    for width in range(1, 8):
        kept = fit(shown, width).rstrip("… ")
        assert shown.startswith(kept), "no letter is parted from the room of its marks"
        assert kept.count(ROOM) == sum(unicodedata.category(each) == "Mc" for each in kept)


def test_wide_characters_are_never_cut_in_half() -> None:
    assert fit("日本語", 5) == "日本…"
    assert fit("日本語", 4) == "日… "
    assert downwards("日本", 3) == ["  ", "日", "本"]


def test_known_signs_have_a_likeness_in_ascii() -> None:
    assert in_ascii("QK σ17 · café → ☃ 한") == "QK s17 | cafe -> ? ?"


def test_a_message_is_broken_between_words_and_centred() -> None:
    assert centred("type a sentence: press i", 16, 4) == [" " * 16, "type a sentence:", "    press i     ", " " * 16]
    assert centred("a", 1, 1) == ["a"]
    assert centred("abcdef", 3, 1) == ["ab…"]
    assert centred("", 3, 2) == ["   ", "   "]


# Axes


def test_rows_are_numbered_and_right_aligned_beside_the_cells() -> None:
    axes = lay_out(["The", " cat", " sat"], ["The", " cat", " sat"], 60, 20)
    assert axes.rows == ("0 The ", "1 cat ", "2 sat ")
    assert axes.gutter == 6
    assert axes.columns == (("T ", "h ", "e "), ("c ", "a ", "t "), ("s ", "a ", "t "))
    assert axes.header == 3


def test_shorter_column_labels_end_at_the_cells() -> None:
    axes = lay_out(["a"], ["a", "the"], 60, 20)
    assert axes.columns == (("  ", "  ", "a "), ("t ", "h ", "e "))
    assert axes.marks == (1, 2)


@pytest.mark.parametrize(("height", "header"), [(3, 1), (6, 2), (8, 2), (16, 4), (24, 6), (60, 6)])
def test_column_labels_take_a_quarter_of_the_height_and_six_lines_at_most(height: int, header: int) -> None:
    assert lay_out(["tokenization"], ["tokenization"], 80, height).header == header


def test_the_index_gives_way_where_the_pane_is_narrow() -> None:
    tokens = ["attention"] * 1000
    assert lay_out(tokens, tokens, 80, 24).rows[7].startswith("  7 ")
    narrow = lay_out(tokens, tokens, 14, 24)
    assert narrow.rows[7] == "atten… "
    assert narrow.gutter == 7


@pytest.mark.parametrize(("width", "height"), [(0, 0), (1, 1), (5, 2), (20, 5), (40, 8), (150, 45)])
def test_every_row_label_is_as_wide_as_the_gutter(width: int, height: int) -> None:
    axes = lay_out(NASTY, NASTY, width, height)
    assert {cell_len(row) for row in axes.rows} == {axes.gutter}
    assert cell_len(axes.corner) == axes.gutter
    assert {len(column) for column in axes.columns} == {axes.header}


@pytest.mark.parametrize(
    ("height", "ascii_only", "seen"),
    [(6, False, ["0", "64", "…", "…"]), (6, True, ["0", "64", "~", "~"]), (12, False, ["0", "64", "128", "192"])],
)
def test_of_an_index_that_is_too_long_for_the_lines_no_part_is_shown(
    height: int, ascii_only: bool, seen: list[str]
) -> None:
    tokens = ["a"] * 250
    axes = lay_out_blocks(tokens, tokens, 64, 40, height, ascii_only=ascii_only)
    assert ["".join(column).replace(" ", "") for column in axes.columns] == seen
