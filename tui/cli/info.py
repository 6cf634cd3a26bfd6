"""What ``attn-tui info`` prints: versions, devices, paths."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import click

from engine.store.files import cache_directory, log_file, state_directory
from engine.store.history import history_file
from engine.values.display_text import plural
from engine.values.memory import size
from tui.cli.configuration import Config, Effective, effective

PACKAGES = ("attn-tui", "torch", "transformers", "huggingface_hub", "safetensors", "textual", "rich", "numpy", "click")


def lines(explorer: click.Command) -> Iterator[str]:
    """Yield the lines, the quick ones first, for the settings of the command that opens the explorer."""
    for package in PACKAGES:
        yield f"{package:<18}{version(package)}"
    yield f"{'python':<18}{platform.python_version()} on {platform.system()} {platform.machine()}"
    config, settings = effective(explorer)
    yield f"{'characters':<18}{_characters(settings)}"
    from engine.checkpoints.model_folders import hub_cache

    for name, path in (
        ("settings", config.path),
        ("last looked at", state_directory()),
        ("typed sentences", history_file()),
        ("opened before", state_directory() / "recent.json"),
        ("cache of spectra", cache_directory()),
        ("cache of models", hub_cache()),
        ("log", log_file()),
    ):
        mistakes = _mistakes(config) if path == config.path else ""
        yield f"{name:<18}{path}{_state(path)}{mistakes}"
    yield f"{'exports go to':<18}{_here()}"
    from engine.models.devices import describe_devices
    from engine.models.memory import free_memories

    yield f"{'devices':<18}{describe_devices()}"
    for memory in free_memories():
        yield f"{f'free on {memory.device}':<18}{'unknown' if memory.free is None else size(memory.free)}"


def _mistakes(config: Config) -> str:
    """Say of how much in the configuration nothing is made, where that is so."""
    count = len(config.all_problems())
    return f"  ({count} {plural('mistake', count)}: attn-tui config lists all)" if count else ""


def _characters(settings: Sequence[Effective]) -> str:
    """Say whether the explorer draws with ASCII alone, and what says so."""
    ascii_only = next(each for each in settings if each.setting.name == "ascii")
    if ascii_only.value == "true":
        return f"ASCII alone: {ascii_only.origin} (--no-ascii draws with others)"
    because = "" if ascii_only.origin == "default" else f": {ascii_only.origin}"
    return f"all that the terminal's font has{because}"


def _state(path: Path) -> str:
    """Say of a path whether it is there; of what nobody may look into, so."""
    try:
        if path.exists():
            return ""
        above = next((each for each in path.parents if each.exists()), None)
        can_be_made = above is not None and above.is_dir() and os.access(above, os.W_OK)
        return "  (not there yet)" if can_be_made else f"  (cannot be made: {above} is not writable)"
    except OSError as error:
        return f"  ({error.strerror})"


def _here() -> str:
    """Name the folder that the explorer writes into: the one it is started in."""
    try:
        return f"{Path.cwd()}  (the current folder)"
    except OSError:
        return "nowhere: the current folder is gone"
