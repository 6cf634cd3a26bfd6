"""Where a checkpoint's attention modules are in the model that was loaded from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.models.outline import Anatomy, AttentionModule, read_anatomy
from engine.models.renamed import ModuleTensors, completed
from engine.models.witness import find_module
from engine.values.errors import EngineError
from engine.values.heads import Head


def placed(model: Any, anatomy: Anatomy) -> Mapping[Head, AttentionModule]:
    """Give a checkpoint's attention modules under names that the loaded model has.

    They are the names in the files, or, where the model calls its modules otherwise, what the rules find in the model.

    Raises
    ------
    EngineError : when the model's own attention is not that of the files, layer for layer and head for head.
    """
    named = dict(model.named_modules())
    lost = [each for each in anatomy.modules.values() if find_module(named, each.outline.module) is None]
    if not lost:
        return anatomy.modules
    outline = anatomy.outline
    refusal = f"{outline.name}: the loaded model has no module {lost[0].outline.module}; attention maps cannot be read"
    try:
        config, entries = completed(model.config), ModuleTensors(model).entries
        own = read_anatomy(outline.name, outline.directory, config, entries).modules
    except EngineError as error:
        raise EngineError(refusal) from error
    if len({place.stack for place in own}) == len(outline.stacks) == 1:  # which only the names in the files may tell
        own = {Head(outline.stacks[0], place.layer): each for place, each in own.items()}
    if {place: each.outline.heads for place, each in own.items()} != {each.name: each.heads for each in outline.layers}:
        raise EngineError(refusal)
    return own
