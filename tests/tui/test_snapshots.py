"""The explorer looks like its snapshots, and the README's pictures are the same."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.tui.snapshots import FOLDER, RETAKE, SHOTS, Shot, cells_of, described, differences, environment_of, strips_of

PICTURES = Path(__file__).parents[2] / "screenshots"


@pytest.mark.parametrize("shot", SHOTS, ids=lambda shot: shot.name)
async def test_the_explorer_looks_as_its_pictures(shot: Shot, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment_of(shot).items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    kept = (FOLDER / f"{shot.name}.txt").read_text(encoding="utf-8")
    wrong = list(differences(kept, described(cells_of(await strips_of(shot)))))
    assert not wrong, "\n".join([f"{shot.name}: {len(wrong)} lines differ; {RETAKE}", *wrong[:12]])


def test_the_pictures_show_what_was_kept() -> None:
    for shot in SHOTS:
        text = (FOLDER / f"{shot.name}.txt").read_text(encoding="utf-8").partition("\n\nstyles, by line")[0]
        if shot.is_shown:
            picture = (PICTURES / f"{shot.name}.svg").read_text(encoding="utf-8")
            pieces = re.findall(r'<text class="attn-tui-r[^>]*>(.*?)</text>', picture, re.DOTALL)
            shown = re.sub("<[^>]*>", "", "".join(pieces))
            assert "".join(html.unescape(shown).split()) == "".join(text.split()), f"{shot.name}: {RETAKE}"
