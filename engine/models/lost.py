"""What is said of a model of which some files cannot be read, while the rest is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.models.outline import Anatomy
from engine.values.plural import counted


def noting_lost(anatomy: Anatomy, lost: Mapping[str, str], *, is_read: bool = True) -> Anatomy:
    """Note in a model's outline which files are not there, and what cannot be had until they are.

    Parameters
    ----------
    anatomy : with the layers of which tensors are lost, whose shapes are those of other layers.
    lost : by tensor, why it cannot be read; nothing is noted where it is empty.
    is_read : whether the model could read a sentence if it were whole.
    """
    if not lost:
        return anatomy
    why, files = next(iter(lost.values())), len(set(lost.values()))
    modules = anatomy.modules.values()
    without = sum(any(name in lost for name in (*each.weights.values(), *each.biases.values())) for each in modules)
    until_then = [f"{without} of {counted(len(modules), 'layer')} cannot be shown"] if without else []
    until_then += ["no sentence can be read"] if is_read else []
    note = f"{why} ({files} files are missing or damaged)" if files > 1 else why
    note += f"; until then {', and '.join(until_then)}" if until_then else ""
    unreadable = f"{why}; a sentence is read by the whole model" if is_read else anatomy.outline.unreadable
    notes = (*anatomy.outline.notes, note)
    return replace(anatomy, outline=replace(anatomy.outline, notes=notes, unreadable=unreadable))
