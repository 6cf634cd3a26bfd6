"""Where this program keeps settings, states, the log, and what it may lose."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path, user_config_path, user_log_path, user_state_path

APPLICATION = "attn-tui"


def cache_directory() -> Path:
    """Say where spectra are kept between runs, and what a long sentence leaves beside memory."""
    return user_cache_path(APPLICATION)


def config_directory() -> Path:
    """Say where settings are."""
    return user_config_path(APPLICATION)


def state_directory() -> Path:
    """Say where what is remembered from one start to the next is."""
    return user_state_path(APPLICATION)


def log_file() -> Path:
    """Say where errors are written in full."""
    return user_log_path(APPLICATION) / "attn-tui.log"
