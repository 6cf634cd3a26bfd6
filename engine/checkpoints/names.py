"""What a model's name means as a person has it: pasted in quotes, an address, or a path beside the model's own.

Nothing heavy is imported: a name is understood before the first frame, and between two keys.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

ADAPTER_CONFIG = "adapter_config.json"
"""What an adapter's folder has in the place of ``config.json``."""

DEMO = "demo"
"""The name of the model that is shipped with the program."""

PARTS = (".safetensors", ".bin", ".pt")
"""How files of weights end; beside a configuration they are parts of a model, which is opened by its folder."""

CACHED = "models--"
"""How the folders of the Hub's cache begin; the parts of the model's name follow, with ``--`` between them."""

_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?!(?:datasets|spaces|docs|models|papers)(?:/|$))"
    r"(?P<id>[\w.-]+(?:/(?!(?:tree|blob|resolve)/)[\w.-]+)?)(?:/(?:tree|blob|resolve)/main(?:/.*)?)?/?(?:[?#].*)?",
    re.ASCII,
)
"""The page of a model on the Hub, or of a file on its main branch."""


def is_model(directory: Path) -> bool:
    """Say whether a folder is one of a model, as far as its configuration tells."""
    return any((directory / name).is_file() for name in ("config.json", ADAPTER_CONFIG))


def hub_cache() -> Path:
    """Say where the Hub's own library keeps models, without importing it."""
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    return Path(os.path.expandvars(os.path.expanduser(cache)))


def cached_id(folder: str) -> str:
    """Give the id of the model that a folder of the Hub's cache is of.

    Examples
    --------
    >>> cached_id("models--google--bert-tiny")
    'google/bert-tiny'
    """
    return folder.removeprefix(CACHED).replace("--", "/")


def unwrapped(text: str) -> str:
    """Take a name or path out of the quotes, or the address, that it was pasted in.

    Examples
    --------
    >>> unwrapped(" '/my models/one' "), unwrapped("file:///my%20models/one")
    ('/my models/one', '/my models/one')
    >>> unwrapped("https://huggingface.co/google/bert-tiny/tree/main"), unwrapped("https://huggingface.co/gpt2")
    ('google/bert-tiny', 'gpt2')
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    if text.startswith("file:/"):
        return unquote(urlsplit(text).path)
    match = _ADDRESS.fullmatch(text)
    return text if match is None else match["id"]


def meant_instead(name: str, *, is_described: bool = False) -> str:
    """Give what is to be opened in the place of a path that is beside a model; empty where that is the path itself.

    Parameters
    ----------
    name : a path or an id, as `unwrapped` gives it.
    is_described : whether the heads are described apart, so that any file of weights can be opened.

    Returns
    -------
    name : the folder that a configuration or weights are in; for a folder of the Hub's cache the model's id, or of
        another cache the snapshot.
    """
    try:
        path = Path(name).expanduser()
        if path.name.startswith(CACHED) and path.is_dir() and not is_model(path):
            return cached_id(path.name) if path.resolve().parent == hub_cache().resolve() else _snapshot(path)
        is_beside = path.name in ("config.json", ADAPTER_CONFIG) or (path.suffix in PARTS and not is_described)
        if is_beside and path.is_file() and is_model(path.parent):
            return f"{name.rpartition('/')[0] or '.'}/"
    except (OSError, ValueError, RuntimeError):
        return ""
    return cached_id(name) if re.fullmatch(rf"{CACHED}[\w.-]+", name, re.ASCII) else ""


def _snapshot(folder: Path) -> str:
    """Give the snapshot of the main branch in a folder of a cache, or else the only one; empty where there is none."""
    snapshots = folder / "snapshots"
    branch = folder / "refs" / "main"
    if branch.is_file() and (main := snapshots / branch.read_text(encoding="utf-8").strip()).is_dir():
        return str(main)
    every = list(snapshots.iterdir()) if snapshots.is_dir() else []
    return str(every[0]) if len(every) == 1 else ""
