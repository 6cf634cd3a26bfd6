"""A Hub on this machine: it answers the requests that huggingface_hub makes, and misbehaves in the ways networks do."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import close_session, constants

STEP, LONG_STEP = 4096, 1 << 20
"""Bytes of a file that are sent at a time, where somebody waits between them, and where nobody does."""


@dataclass
class Repository:
    """A model on the fake Hub.

    Attributes
    ----------
    files : by name, of the newest commit.
    revisions : other branches and tags, with files of their own.
    refused : an HTTP status and the Hub's code for the reason: (403, "GatedRepo"); in answer to the files alone, since
        the Hub describes gated models to everybody.
    """

    files: dict[str, bytes]
    revisions: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refused: tuple[int, str] | None = None

    def at(self, revision: str) -> dict[str, bytes] | None:
        """Give a revision's files, asked for by name or commit."""
        for name, files in {"main": self.files, **self.revisions}.items():
            if revision in (name, commit(files)):
                return files
        return None


def contents(folder: Path) -> dict[str, bytes]:
    """Give the files of a folder by name."""
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@lru_cache(maxsize=16)
def digest(content: bytes) -> str:
    """Hash a file, which is asked for at every request."""
    return hashlib.sha256(content).hexdigest()


def commit(files: Mapping[str, bytes]) -> str:
    named = "".join(f"{name} {digest(content)}\n" for name, content in sorted(files.items()))
    return hashlib.sha1(named.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Request:
    """What was asked of the Hub: ``GET`` or ``HEAD``, the path, and the bytes wanted (empty: all)."""

    method: str
    path: str
    range: str


class FakeHub:
    """A server on 127.0.0.1, running while it is entered.

    Attributes
    ----------
    repositories : by model id.
    requests : all there were.
    cut_after : by file name, how many bytes to send before the connection breaks; each only once.
    held_at : how many bytes of a file are sent until this is None again; None: all.
    pause : seconds between two pieces of a file.
    dies_of_cuts : whether such a break takes the whole network away.
    dead : whether the network is away: connections are closed without an answer.
    hanging : parts of paths that are never answered.
    broken : an HTTP status that everything is answered with.
    closing : set once it is left.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[Request] = []
        self.cut_after: dict[str, int] = {}
        self.held_at: int | None = None
        self.pause = 0.0
        self.dies_of_cuts = False
        self.dead = False
        self.hanging: tuple[str, ...] = ()
        self.broken = 0
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self._server.block_on_close = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def fetched(self) -> list[str]:
        """List the names of the files whose content was sent, in order."""
        found = (re.search(r"/resolve/[^/]+/(.+)", each.path) for each in self.requests if each.method == "GET")
        return [match[1] for match in found if match]

    def add(self, name: str, folder: Path, **extra: bytes) -> Repository:
        """Publish a folder as a model, with further files."""
        self.repositories[name] = Repository(contents(folder) | extra)
        return self.repositories[name]

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()  # so that hanging requests end
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One connection to the fake Hub."""

    protocol_version = "HTTP/1.1"

    def __init__(self, hub: FakeHub, *args: Any) -> None:
        self.hub = hub
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        """Find out what is asked for and answer as the Hub does."""
        hub = self.hub
        path = unquote(urlsplit(self.path).path)
        hub.requests.append(Request(self.command, path, self.headers.get("Range", "")))
        if hub.dead or any(part in path for part in hub.hanging):
            if not hub.dead:
                hub.closing.wait()
            self.close_connection = True
            return
        if hub.broken:
            self._refuse(hub.broken, "")
            return
        if (branches := re.fullmatch(r"/api/models/(?P<name>.+?)/refs", path)) and branches["name"] in hub.repositories:
            self._list_branches(hub.repositories[branches["name"]])
            return
        about = re.fullmatch(r"/api/models/(?P<name>.+?)(?:/(?:revision|tree)/(?P<revision>.+))?", path)
        file = re.fullmatch(r"/(?P<name>.+?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)", path)
        match = about or file
        repository = hub.repositories.get(match["name"]) if match else None
        if match is None or repository is None:
            self._refuse(401, "RepoNotFound")  # what the Hub says of unknown and of private models
            return
        files = repository.at(match["revision"] or "main")
        if files is None:
            self._refuse(404, "RevisionNotFound")
        elif about and "/tree/" in path:
            self._send_json([{"type": "file", "path": each, "size": len(files[each]), "oid": "0"} for each in files])
        elif about:
            self._describe(match["name"], files)
        elif repository.refused:
            self._refuse(*repository.refused)
        elif match["file"] not in files:
            self._refuse(404, "EntryNotFound")
        else:
            self._send_file(match["file"], files)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", f"a message of the Hub about {code}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _describe(self, name: str, files: Mapping[str, bytes]) -> None:
        siblings = [{"rfilename": each, "size": len(content), "blobId": "0"} for each, content in files.items()]
        self._send_json({"id": name, "modelId": name, "sha": commit(files), "siblings": siblings})

    def _list_branches(self, repository: Repository) -> None:
        """Name the branches, with the commit of each."""
        branches = [
            {"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit(files)}
            for name, files in {"main": repository.files, **repository.revisions}.items()
        ]
        self._send_json({"branches": branches, "converts": [], "tags": []})

    def _send_json(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_file(self, name: str, files: Mapping[str, bytes]) -> None:
        """Send a file, or the rest of it, or only so much of it that the connection breaks in the middle."""
        content = files[name]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start, last = (int(wanted[1]), int(wanted[2] or len(content) - 1)) if wanted else (0, len(content) - 1)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last + 1 - start))
        self.send_header("ETag", f'"{digest(content)}"')
        self.send_header("X-Repo-Commit", commit(files))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.hub.cut_after.pop(name, None)
        end = last + 1 if cut is None else cut
        step = LONG_STEP if self.hub.held_at is None and not self.hub.pause else STEP
        for place in range(start, end, step):
            self.wfile.write(content[place : min(place + step, end)])
            time.sleep(self.hub.pause)
            while self.hub.held_at is not None and place >= self.hub.held_at:
                time.sleep(0.01)
        if cut is not None:
            self.hub.dead = self.hub.dies_of_cuts
            self.close_connection = True


def point_at(url: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Hub's client talk to an address and keep what it gets in a folder."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    close_session()
