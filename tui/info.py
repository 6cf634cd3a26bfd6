"""What ``attn-tui info`` prints: versions, devices, paths."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version

from engine.service.history import history_file
from engine.service.options import cache_directory, config_directory, log_file
from engine.values.memory import size

PACKAGES = ("attn-tui", "torch", "transformers", "huggingface_hub", "safetensors", "textual", "rich", "numpy", "click")


def lines() -> Iterator[str]:
    """Yield the lines, the quick ones first."""
    for package in PACKAGES:
        yield f"{package:<18}{version(package)}"
    yield f"{'python':<18}{platform.python_version()} on {platform.system()} {platform.machine()}"
    from engine.models.hub import models_directory

    yield f"{'settings':<18}{config_directory()}"
    yield f"{'cache of spectra':<18}{cache_directory()}"
    yield f"{'cache of models':<18}{models_directory()}"
    yield f"{'typed sentences':<18}{history_file()}"
    yield f"{'log':<18}{log_file()}"
    from engine.models.devices import describe_devices
    from engine.models.memory import free_memories

    yield f"{'devices':<18}{describe_devices()}"
    for memory in free_memories():
        yield f"{f'free on {memory.device}':<18}{'unknown' if memory.free is None else size(memory.free)}"
