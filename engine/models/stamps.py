"""What files are told by without reading them: whatever was computed of them holds as long as that stays the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def stamps(files: Iterable[Path]) -> str:
    """Write the paths of files with their sizes, their times and which they are on their disk.

    Of the times one can be set by whoever writes a file (``mtime``) and one cannot (``ctime``): a file of the same size
    and age in the place of another, or behind the same link, is another one.

    Raises
    ------
    OSError : where one is not there.
    """
    return ";".join(
        f"{file}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"
        for file, stat in ((each, each.stat()) for each in files)
    )
