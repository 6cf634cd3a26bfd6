"""A cache on a disk that cannot be written to is told of once, and takes nothing away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.exporting import run
from tests.tui.explorer import explorer, settle

UNWRITABLE = "spectra are not kept: Not a directory; attn-tui info names the folder"


@pytest.fixture
def unwritable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a file where the cache's folder would be, which stops whoever runs the tests."""
    (tmp_path / "attn-tui").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("unwritable_cache")
def test_a_cache_that_cannot_be_written_is_told_of_once(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2")
    for views in (("ranks",), ("spectrum", "--vs", str(folder))):
        done = run(folder, *views, "--layer", "0")
        assert done.exit_code == 0
        assert done.stderr.count(UNWRITABLE) == 1
        assert done.stdout == run(folder, *views, "--layer", "0", "--no-cache").stdout
    assert UNWRITABLE not in run(folder, "ranks", "--no-cache").stderr


@pytest.mark.usefixtures("unwritable_cache")
async def test_the_explorer_says_so_as_it_says_everything(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await settle(pilot)
        assert [each.message for each in app._notifications if UNWRITABLE in each.message] == [UNWRITABLE]
