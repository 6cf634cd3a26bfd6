"""The entry point of the command; it imports next to nothing, so that ctrl+c works during the other imports."""

from __future__ import annotations

from tui.cli.standard_streams import exit_on_interrupt


def main() -> None:
    """Run the command line."""
    with exit_on_interrupt():
        from tui.cli.command_line import main as run

        run()
