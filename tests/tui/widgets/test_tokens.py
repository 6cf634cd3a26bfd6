"""The tokens of a sentence can be told apart, while it is typed and when it is read."""

from __future__ import annotations

import pytest

from engine.models.tokenizer import Tokenizer
from engine.values.attention import Sentence, Spelling
from tests import tiny_models
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, screen_text, settle, until
from tui.drawing.token_spelling import spell_tokens, token_strip


@pytest.mark.parametrize(
    ("model_type", "text", "expected"),
    [
        ("bert", "the [CLS] cat 中", "‹[CLS]› the «[CLS]» cat «[UNK]» ‹[SEP]›"),
        ("gpt2", "<s>he<|s", "«<s>» he < | s"),
        ("gpt2", "[b]\n中", "[ b ] \\n 中₁ 中₂ 中₃"),
        ("gpt2", "中中", "中₁ 中₂ 中₃ 中₁ 中₂ 中₃"),
        ("gpt2", "\ufe0f", r"\ufe0f₁ \ufe0f₂ \ufe0f₃"),
        ("gpt2", "\U0001f3fd", r"\U0001f3fd₁ \U0001f3fd₂ \U0001f3fd₃ \U0001f3fd₄"),
    ],
)
def test_special_tokens_differ_from_the_same_text(model_type: str, text: str, expected: str) -> None:
    is_words = model_type == "bert"
    tokenizer = tiny_models.word_piece_tokenizer() if is_words else tiny_models.byte_level_tokenizer()
    sentence = Tokenizer(tokenizer).read(text, 64)
    labels = spell_tokens(sentence.tokens, sentence.spellings_along(sentence.tokens))
    assert list(labels) == expected.split(" ")


def test_the_strip_counts_tokens_and_follows_the_cursor() -> None:
    words = [f" word{number}" for number in range(40)]
    sentence = Sentence(
        "".join(words), tuple(range(41)), ("[CLS]", *words), 41, (Spelling("added"), *[Spelling("text")] * 40)
    )
    for number in (0, 5, 20, 39):
        strip = token_strip(sentence, 48, at=len("".join(words[: number + 1])))
        assert f"{words[number]}│" in strip.plain, number
        assert strip.cell_len == 48
        assert strip.plain.endswith("41 tokens")
    assert token_strip(sentence, 48).plain.startswith("‹[CLS]›│ word0│")


@pytest.mark.parametrize("model_type", ["gpt2", "bert"])
async def test_tokens_are_visible_while_one_types_and_once_read(tiny_model: TinyModel, model_type: str) -> None:
    async with explorer(tiny_model(model_type)) as (app, pilot):
        await pilot.press("i", *"the", "space", *"cat")
        is_words = model_type == "bert"
        spelled = "‹[CLS]›│the│cat│‹[SEP]›│" if is_words else "t│he│ cat│"
        await until(pilot, lambda: spelled in screen_text(app))
        assert f"{4 if is_words else 3}/64 tokens" in screen_text(app)
        await pilot.press("enter")
        await settle(pilot)
        line = next(line for line in screen_text(app).splitlines() if line.startswith(" sentence"))
        assert spelled in line
