"""Where this program keeps what it may lose."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path

APPLICATION = "attn-tui"


def cache_directory() -> Path:
    """Say where spectra are kept between runs, and what a long sentence leaves beside memory."""
    return user_cache_path(APPLICATION)
