"""One thread at a time imports transformers.

Two threads that import parts of it at once may each come to wait for a module that the other one is in the midst of;
Python then hands out a module that is not finished, which is kept for good by whoever imported it.
"""

from __future__ import annotations

import threading

IMPORTING = threading.RLock()
"""Held while transformers, or a part of it, may be imported for the first time."""
