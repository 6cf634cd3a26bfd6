"""One file of the Hub on its way into the local cache, in pieces that stay when the way is cut short.

The Hub's own client throws away what has come of a file when its download ends early. Here it stays beside the place
of the whole file, as ``<etag>.incomplete``, and the next try asks the Hub for the rest alone (``Range``, RFC 9110
section 14.2). The whole file takes the place where the client looks for it, and the client does the rest.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, get_session, hf_hub_url
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # its documented names, which it lists nowhere
    WeakFileLock,
    build_hf_headers,
    hf_raise_for_status,
)

from engine.values.errors import Superseded

UNSATISFIABLE = 416
"""The status with which a server refuses a part of a file that lies beyond its end."""


class Transfer:
    """A file of one commit of a model. `run` belongs to a thread of its own; the rest may be called from any.

    Parameters
    ----------
    name : of the model.
    commit : of which the file is.
    file : its name.
    size : in bytes, as the Hub says.

    Attributes
    ----------
    received : bytes of it that are on this machine.
    fetched : bytes of those that have come now, and not in an earlier try.
    is_waiting : whether another program is fetching the same file, which is waited for.
    """

    def __init__(self, name: str, commit: str, file: str, size: int) -> None:
        self.received = self.fetched = 0
        self.is_waiting = False
        self._name, self._commit, self._file, self._size = name, commit, file, size
        self._abandoned = False

    def abandon(self) -> None:
        """End it at the next piece; what has come stays."""
        self._abandoned = True

    def run(self) -> None:
        """Fetch what is missing of the file.

        Raises
        ------
        ConnectionError, OSError : when the network or the disk fails; what has come until then stays.
        """
        url = hf_hub_url(self._name, self._file, revision=self._commit)
        etag = get_hf_file_metadata(url).etag
        if not etag:
            return  # a server that does not tell contents apart: the client fetches the file as a whole
        cache = Path(constants.HF_HUB_CACHE)
        folder = f"models--{self._name.replace('/', '--')}"
        whole, lock = cache / folder / "blobs" / etag, cache / ".locks" / folder / f"{etag}.lock"
        for place in (whole, lock):
            place.parent.mkdir(parents=True, exist_ok=True)
        self.is_waiting = True
        with WeakFileLock(lock):
            self.is_waiting = False
            self._check()
            if not whole.exists():
                partial = whole.with_name(f"{etag}.incomplete")
                self._fetch(url, partial)
                partial.replace(whole)
        self.received = self._size

    def _fetch(self, url: str, partial: Path) -> None:
        """Write what is missing of a file behind what there is of it."""
        here = partial.stat().st_size if partial.exists() else 0
        if here > self._size:
            here = 0  # of another content, or damaged
        headers = build_hf_headers() | {"Accept-Encoding": "identity"}
        if here:
            headers["Range"] = f"bytes={here}-"
        self.received = here
        if here < self._size:
            seconds = constants.HF_HUB_DOWNLOAD_TIMEOUT
            with get_session().stream("GET", url, headers=headers, timeout=seconds) as response:
                if response.status_code == UNSATISFIABLE:
                    partial.unlink()
                hf_raise_for_status(response)
                if response.status_code != 206:  # the server sends all of it
                    here = self.received = 0
                with partial.open("r+b" if here else "wb") as stream:
                    stream.seek(here)
                    stream.truncate()
                    for piece in response.iter_bytes():  # as the network brings them
                        self._check()
                        stream.write(piece)
                        self.received += len(piece)
                        self.fetched += len(piece)
        elif not partial.exists():
            partial.touch()  # a file without content
        if partial.stat().st_size != self._size:
            raise ConnectionError(f"{partial.stat().st_size} of {self._size} bytes of {self._file} have come")

    def _check(self) -> None:
        """Stop where nobody waits any more."""
        if self._abandoned:
            raise Superseded(f"the download of {self._name} was given up")
