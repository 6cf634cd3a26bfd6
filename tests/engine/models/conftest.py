"""What several tests of running models stand on."""

from __future__ import annotations

import pytest

from engine.models import attention_capture


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks of two or three queries of a tiny sentence, and try them on fewer tokens than it has."""
    monkeypatch.setattr(attention_capture, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(attention_capture, "FEWEST_QUERIES", 1)
    monkeypatch.setattr(attention_capture, "TRIED_TOKENS", 7)
