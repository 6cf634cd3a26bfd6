"""Downloads of a model's attention alone: of its weight files, only the byte ranges of the heads' tensors.

The headers of safetensors files come first. They say where each tensor lies, and from their names and shapes the heads
are found as in any other folder. The tensors of the heads go into one new file. The others are not in it, so nobody
takes a hole in a file for their values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.checkpoints.source import FolderSource, Location
from engine.checkpoints.tensor_reader import LENGTH_BYTES

PIECE = 2**25
"""Bytes that are asked for at a time."""

ReadRange = Callable[[str, int, int], bytes]
"""Returns a named file's bytes from one number to before another."""


def download_attention(
    name: str, folder: Path, sizes: Mapping[str, int], read_range: ReadRange, report: Callable[..., None]
) -> bool:
    """Write the tensors of a model's heads into a folder that has its settings.

    Parameters
    ----------
    name : the model's, for errors.
    sizes : of its safetensors files, in bytes.
    report : told how many bytes are ``done``, of how many in all ``files``.

    Returns False, with nothing written, where the heads' tensors are stored under other names than they are read by.
    Raises `EngineError` when the folder holds no model with heads, and whatever ``read_range`` raises.
    """
    headers: dict[str, bytes] = {}
    for file, size in sizes.items():
        length = LENGTH_BYTES + int.from_bytes(read_range(file, 0, LENGTH_BYTES), "little")
        headers[file] = read_range(file, 0, min(length, size))
        with (folder / file).open("wb") as stream:
            stream.write(headers[file])
            stream.truncate(size)  # takes no room, and lets the model be opened
    report(files=0, done=0)
    modules = FolderSource(Location(name, folder)).anatomy.modules.values()
    for file in (*sizes, *(each.name for each in folder.glob("*.safetensors.index.json"))):
        (folder / file).unlink()
    # Beside a projection's weight stand its bias and, if it is quantised, its scales.
    projections = {_module(tensor) for module in modules for tensor in module.tensor_names}
    places: list[tuple[str, int, int]] = []
    described: dict[str, Any] = {}
    total = 0
    for file, header in headers.items():
        entries = json.loads(header[LENGTH_BYTES:])
        entries.pop("__metadata__", None)
        for tensor, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            if _module(tensor) in projections:
                begin, end = (len(header) + offset for offset in entry["data_offsets"])
                described[tensor] = {**entry, "data_offsets": [total, total + end - begin]}
                total += end - begin
                if places and places[-1][0] == file and places[-1][2] == begin:
                    begin = places.pop()[1]
                places.append((file, begin, end))
    if {_module(tensor) for tensor in described} != projections:
        return False
    text = json.dumps(described).encode()
    here = 0
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
        for file, begin, end in places:
            for first in range(begin, end, PIECE):
                here += stream.write(read_range(file, first, min(first + PIECE, end)))
                report(files=total, done=here)
    return True


def _module(tensor: str) -> str:
    return tensor.rpartition(".")[0]
