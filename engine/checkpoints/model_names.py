"""What a model's name means as a person has it: pasted in quotes, an address, or a path beside the model's own.

Nothing heavy is imported: a name is understood before the first frame, and between two keys.
"""

from __future__ import annotations

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
    """Say where the local Hub cache is."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached_id(folder: str) -> str:
    """Give the id of the model that a folder of the Hub's cache is of.

    Examples
    --------
    >>> cached_id("models--google--bert-tiny")
    'google/bert-tiny'
    """
    return folder.removeprefix(CACHED).replace("--", "/")


def snapshot(folder: Path, revision: str | None = None) -> Path:
    """Say where in a model's folder of a cache the files of a branch, tag or commit are; those of main by default."""
    revision = revision or "main"
    try:
        commit = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        commit = revision
    return folder / "snapshots" / commit


def clean_name(text: str) -> str:
    """Take a name or path out of the quotes, or the address, that it was pasted in.

    Examples
    --------
    >>> clean_name(" '/my models/one' "), clean_name("file:///my%20models/one")
    ('/my models/one', '/my models/one')
    >>> clean_name("https://huggingface.co/google/bert-tiny/tree/main"), clean_name("https://huggingface.co/gpt2")
    ('google/bert-tiny', 'gpt2')
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    if text.startswith("file:/"):
        return unquote(urlsplit(text).path)
    match = _ADDRESS.fullmatch(text)
    return text if match is None else match["id"]


def model_at_path(name: str, *, is_described: bool = False) -> str:
    """Give the model that a path leads to which is no model by itself: a file beside one, or its folder of a cache.

    Parameters
    ----------
    name : a path or an id, as `clean_name` gives it.
    is_described : whether the heads are described apart, so that any file of weights can be opened.

    Returns
    -------
    name : the folder that a configuration or weights are in; for a folder of the Hub's cache the model's id, or of
        another cache the snapshot; empty where the path itself is to be opened.
    """
    try:
        path = Path(name).expanduser()
        if path.name.startswith(CACHED) and path.is_dir() and not is_model(path):
            is_ours = path.resolve().parent == hub_cache().resolve()
            return cached_id(path.name) if is_ours else str(snapshot(path))
        is_beside = path.name in ("config.json", ADAPTER_CONFIG) or (path.suffix in PARTS and not is_described)
        if is_beside and path.is_file() and is_model(path.parent):
            return f"{name.rpartition('/')[0] or '.'}/"
    except (OSError, ValueError, RuntimeError):
        pass
    return ""
