"""What stands in a file beside its table: of what it is, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from engine.values.outline import ModelOutline


def facts_of(outline: ModelOutline, revision: str | None, view: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Say what a table is of: the model, its revision where that is known, the view, and the options that shaped it.

    Of a model from the Hub's cache the revision is the commit, by which the cache names its folders.
    """
    folder = Path(outline.directory)
    commit = folder.name if folder.parent.name == "snapshots" else revision
    facts = {"attn-tui": version("attn-tui"), "model": outline.name, "revision": commit or "", "view": view}
    return facts | {"options": json.dumps(dict(options), ensure_ascii=False)}
