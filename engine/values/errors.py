"""What goes wrong for a reason a person can act on."""

from __future__ import annotations


class EngineError(Exception):
    """A request that cannot be met: one line that names the thing and the next step, fit to be shown as it is."""


class Superseded(EngineError):
    """A newer request for the same view has replaced this one; nobody waits for its answer any more."""
