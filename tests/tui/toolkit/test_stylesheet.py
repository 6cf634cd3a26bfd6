"""No rule is parsed twice for the same colours; another theme parses them again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from textual.color import Color
from textual.css import parse
from textual.css.stylesheet import Stylesheet

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.conftest import TinyModel
from tests.tui.explorer import settle
from tui.app import Explorer
from tui.start import Start
from tui.stylesheet import OnceParsed


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is parsed, by its text."""
    counts: Counter[str] = Counter()
    own = parse.parse

    def counted(scope: str, css: str, read_from: Any, *arguments: Any, **settings: Any) -> Any:
        counts[repr((scope, css, read_from, settings.get("tie_breaker")))] += 1
        return own(scope, css, read_from, *arguments, **settings)

    monkeypatch.setattr("textual.css.stylesheet.parse", counted)
    return counts


def rules(sheet: Stylesheet) -> list[tuple[str, dict[str, Any]]]:
    """List what the rules of a stylesheet say, colours worked out."""
    return [(repr(rule.selector_names), dict(rule.styles.get_rules())) for rule in sheet.rules]


def test_rules_are_parsed_again_for_other_colours_alone(parsed: Counter[str]) -> None:
    chosen = {"ink": "red"}
    sheet = OnceParsed(lambda: dict(chosen))
    sheet.add_source("Label { color: $ink; }")
    chosen["ink"] = "blue"  # as a theme that is chosen once an application is made
    (rule,) = sheet.rules
    blue = rule.styles.color
    sheet.set_variables(dict(chosen))
    sheet.reparse()
    assert (blue, sum(parsed.values())) == (Color.parse("blue"), 1)
    sheet.set_variables({"ink": "green"})
    sheet.add_source("Button { color: $ink; }", read_from=("other", ""))
    sheet.reparse()
    assert [rule.styles.color for rule in sheet.rules] == [Color.parse("green")] * 2
    before = sum(parsed.values())
    sheet.reparse()
    assert sum(parsed.values()) == before


@pytest.mark.parametrize("theme", ["textual-light", "colour-blind"])
async def test_the_rules_of_the_explorer_have_the_colours_of_its_theme(theme: str, tiny_model: TinyModel) -> None:
    app = Explorer(Engine(EngineOptions()), Start(str(tiny_model("gpt2"))), ascii_only=False)
    app.use_theme(theme)
    async with app.run_test() as pilot:
        await settle(pilot)
        for name in (theme, "textual-dark", "colour-blind-light"):
            app.use_theme(name)
            await settle(pilot)
            fresh = Stylesheet(variables=app.get_css_variables())
            fresh.source = app.stylesheet.source.copy()
            fresh.parse()
            assert rules(app.stylesheet) == rules(fresh)
    app.engine.stop()
