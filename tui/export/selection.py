"""What ``--stack``, ``--layer`` and ``--head`` name in a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from engine.values.errors import EngineError
from engine.values.heads import Head, parse_head
from engine.values.outline import LayerOutline, ModelOutline

if TYPE_CHECKING:
    from tui.export.request import Request


@dataclass(frozen=True, slots=True)
class Selection:
    """The layers and heads that a request names in one model.

    Attributes
    ----------
    layers : those to go through; empty with ``layer_mean``.
    layer_mean : the mean over the layers is asked for.
    head : a head's number, -1 for whole layers alone, None for everything.
    head_mean : the mean over the heads is asked for.
    stacks : the stacks to go through.
    is_one_layer : whether a layer is named, so that nothing else is wanted where it has no rows.
    """

    layers: tuple[LayerOutline, ...]
    layer_mean: bool
    head: int | None
    head_mean: bool
    stacks: tuple[str, ...]
    is_one_layer: bool


def select(outline: ModelOutline, request: Request) -> Selection:
    """Find what ``--stack``, ``--layer`` and ``--head`` name in a model.

    Raises
    ------
    EngineError : when the model has no such stack, layer or head.
    """
    attention = request.view == "attention"
    if request.stack is not None and request.stack not in outline.stacks:
        raise EngineError(f"{outline.name} has no stack '{request.stack}'; it has {', '.join(outline.stacks)}")
    layer, head, stack = request.layer, request.head, request.stack
    number: int | None = None
    if head is not None and head not in ("all", "mean") and not head.isdigit():
        name = parse_head(head, (stack,) if stack else outline.stacks)
        if layer is not None and layer != str(name.layer):
            raise click.UsageError(f"--layer {layer} and --head {head} name different layers")
        layer, number, stack = str(name.layer), None if name.is_layer else name.head, name.stack
    elif head is not None and head.isdigit():
        number = int(head)
    if not attention and "mean" in (layer, head):
        raise click.UsageError(f"means are of attention; {request.view} has none")
    if layer is not None and layer not in ("all", "mean") and not layer.isdigit():
        raise click.UsageError(f"--layer {layer}: give a number from 0{', or mean' if attention else ''}")
    stacks = (stack,) if stack is not None else outline.stacks
    layers = [each for each in outline.layers if each.stack in stacks]
    only = int(layer) if layer is not None and layer.isdigit() else None
    if only is not None:
        layers = [each for each in layers if each.layer == only]
        if not layers:
            outline.layer(Head(stacks[0], only))
    if number is not None:
        for each in layers:
            outline.layer(Head(each.stack, each.layer, number))
    if head == "all" and not attention:
        number = -1
    return Selection(tuple(layers), layer == "mean", number, head == "mean", stacks, only is not None)
