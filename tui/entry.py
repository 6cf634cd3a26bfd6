"""Where the command begins: with next to no imports, so that it can be stopped while it makes the others."""

from __future__ import annotations

from tui.cli.stream_errors import ended_by_an_interrupt


def main() -> None:
    """Run the command line; ctrl+c ends it alike before its modules are imported and after."""
    with ended_by_an_interrupt():
        from tui.cli.command_line import main as run

        run()
