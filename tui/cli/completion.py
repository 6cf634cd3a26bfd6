"""What a shell is offered for a word that is half typed. It answers between two keys, so nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from engine.checkpoints.json_files import CACHED
from engine.checkpoints.model_folders import cached_id, hub_cache


class Fish(FishComplete):
    """What the toolkit writes for fish, but that what follows a comma in a description stays."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": Fish}
"""Who writes the script of each shell, and its answers."""

GROUP = "attn-tui.group"
"""Key of a context's `meta`: the group whose commands may stand here; None where something was typed before."""


def complete_model(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the demo, the models in the local Hub cache and the folders that are here; else what files there are."""
    if incomplete.startswith((".", "/", "~")):
        return [CompletionItem(incomplete, type="file")]
    folders = (f"{each.name}/" for each in sorted(Path().iterdir()) if each.is_dir() and not each.name.startswith("."))
    found = [name for name in ("demo", *_cached_models(), *folders) if name.startswith(incomplete)]
    return [CompletionItem(name) for name in found] or [CompletionItem(incomplete, type="file")]


def complete_first_word(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer models, and where nothing was typed before, commands."""
    group = ctx.meta[GROUP]
    if group is None:
        return complete_model(ctx, parameter, incomplete)
    commands = click.Group.shell_complete(group, click.Context(group), incomplete)
    models = complete_model(ctx, parameter, incomplete)
    return commands + [each for each in models if each.type == "plain" or not commands]


def complete_theme(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the themes."""
    from textual.theme import BUILTIN_THEMES

    from tui.toolkit.themes import every_theme

    names = sorted({*every_theme(), *BUILTIN_THEMES})
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_device(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer kinds of devices; which of them this machine has only torch knows, which takes a second to ask."""
    return [CompletionItem(name) for name in ("auto", "cpu", "cuda", "mps") if name.startswith(incomplete)]


def _cached_models() -> list[str]:
    """Name the models of the local Hub cache."""
    return sorted(cached_id(each.parent.name) for each in hub_cache().glob(f"{CACHED}*/snapshots"))
