"""Which model is meant by a word of the command line."""

from __future__ import annotations

import click

from engine.checkpoints.model_names import clean_name, model_at_path
from engine.values.options import EngineOptions


def model_named(typed: str, options: EngineOptions) -> str:
    """Give the model's name, and say on standard error where another is opened than the path that was typed."""
    name = clean_name(typed)
    instead = model_at_path(name, is_described=options.layout is not None)
    if instead:
        click.echo(f"attn-tui: {name} is of a model: opening {instead}", err=True)
    return instead or name
