"""What a person saw last, in small files: one for each model, one for the theme, one for the guide."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.store.files import replaced_file, state_directory
from engine.values.errors import EngineError
from engine.values.heads import Head, parse_head
from engine.values.views import RANK_MEASURES, VIEWS
from tui.state.overview_measures import MEASURES as OVERVIEW_MEASURES
from tui.state.overview_measures import overview_fields
from tui.state.places import OTHER_VIEWS
from tui.state.session import MOST_PINS, Shown

if TYPE_CHECKING:
    from engine.values.outline import ModelOutline


def model_key(model: str, revision: str | None) -> str:
    """Name a model by a key that is the same from any folder.

    Examples
    --------
    >>> model_key("gpt2", "main")
    'gpt2@main'
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        if Path(model).exists():
            model = str(Path(model).resolve())
    return model if revision is None else f"{model}@{revision}"


def place_of(key: str) -> Path:
    """Give the path of a model's file."""
    import hashlib  # late, so that the first frame does not wait for it

    return state_directory() / "models" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def recall(key: str, outline: ModelOutline) -> dict[str, Any]:
    """Read the fields of `Shown` that a model was left with, without those that the model or program no longer has."""
    said = _read(place_of(key))
    text, view, measure, overview = (str(said.get(name) or "") for name in ("text", "view", "measure", "overview"))
    epsilon, pins = said.get("epsilon"), str(said.get("pins") or "").split(",")
    heads = [head for each in pins if (head := _known(each, outline)) and not head.is_layer]
    found = {
        "selected": _known(str(said.get("head") or ""), outline),
        "view": view if view in VIEWS or view in OTHER_VIEWS else None,
        "text": text,
        "measure": measure if measure in {name for _, name in RANK_MEASURES.values()} else None,
        **(overview_fields(overview) if overview in OVERVIEW_MEASURES else {}),
        "epsilon": float(epsilon) if isinstance(epsilon, int | float) and 0 < epsilon < 1 else None,
        "pins": tuple(dict.fromkeys(heads))[:MOST_PINS],
    }
    return {name: value for name, value in found.items() if value}


def _known(name: str, outline: ModelOutline) -> Head | None:
    """Read the name of a head or layer; None if the model does not have it."""
    try:
        head = parse_head(name, outline.stacks)
        outline.layer(head)
    except EngineError:
        return None
    return head


def save_shown(key: str, shown: Shown) -> None:
    """Write what is shown of a model; while the whole model is selected, the head saved before stays."""
    selected = shown.selected
    fields = {
        "model": key,
        **({} if selected is None else {"head": f"{selected.stack}.{selected}"}),
        "view": shown.view,
        "text": shown.sentence or "",
        "measure": shown.measure,
        "overview": shown.overview,
        "epsilon": shown.epsilon,
        "pins": ",".join(f"{head.stack}.{head}" for head in shown.pins),
    }
    remember(key, _read(place_of(key)) | fields)


def remember(key: str, said: dict[str, Any]) -> None:
    """Write a model's file, if that is possible."""
    _write(place_of(key), said)


def choice_file(name: str) -> Path:
    """Give the path of a choice's file: ``theme``, or ``guide``."""
    return state_directory() / f"{name}.json"


def recall_choice(name: str) -> str | None:
    """Give what a person chose last; None if nothing."""
    choice = _read(choice_file(name)).get(name)
    return choice if isinstance(choice, str) else None


def remember_choice(name: str, choice: str) -> None:
    """Save a person's choice."""
    _write(choice_file(name), {name: choice})


def _read(path: Path) -> dict[str, Any]:
    """Read a file; empty if there is none or it is broken."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _write(path: Path, said: dict[str, Any]) -> None:
    """Replace a file as a whole, readable by its owner alone, even if another process writes it too."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as partial:
            partial.touch(mode=0o600)
            partial.write_text(json.dumps(said), encoding="utf-8")
