"""An exported file is complete or absent, whatever happens while it is written."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.store.export import write_npz, write_table
from engine.store.files import unused_path
from engine.values.errors import EngineError, Superseded
from engine.values.table import Cell, LargeTable, Table
from tests.opening import ROOT, one_line

COLUMNS = ("token", "index", "weight")


def write_csv(path: Path, *tokens: str) -> Path:
    """Write a table with a row for each token."""
    return write_table(Table.of_rows("attention", COLUMNS, [(token, 1, 0.5) for token in tokens]), path, "csv")


def csv_of(*tokens: str) -> str:
    return "token,index,weight\n" + "".join(f"{token},1,0.5\n" for token in tokens)


def names(folder: Path) -> list[str]:
    """List a folder, including hidden files."""
    return sorted(each.name for each in folder.iterdir())


def interrupted(error: BaseException) -> Iterator[Sequence[Cell]]:
    """Yield rows, and then raise an error."""
    for number in range(250):
        yield ("token", number, number / 7)
    raise error


ERRORS = (ValueError("in the middle"), KeyboardInterrupt(), OSError(28, "No space left"), Superseded("replaced"))


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet", "npz"])
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_the_middle_leaves_no_new_file_and_keeps_an_old_one(
    error: BaseException, ending: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.values.table.PIECE", 100)

    def arrays() -> Iterator[tuple[str, NDArray[Any]]]:
        yield "L0H0.W_Q", np.zeros(1000)
        raise error

    def write(path: Path) -> Path:
        if ending == "npz":
            return write_npz(arrays(), path)
        return write_table(LargeTable("attention", COLUMNS, interrupted(error)), path, ending.split(".")[0])

    (folder / f"old.{ending}").write_text("old")
    for path in (folder / f"old.{ending}", folder / f"new.{ending}"):
        with pytest.raises((type(error), EngineError)):
            write(path)
    assert (folder / f"old.{ending}").read_text() == "old"
    assert names(folder) == [f"old.{ending}"]


def test_an_old_file_is_replaced_and_keeps_its_permissions(folder: Path) -> None:
    path = write_csv(folder / "table.csv", "old", "older")
    path.chmod(0o640)
    write_csv(path, "new")
    assert path.read_text() == csv_of("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(folder) == ["table.csv"]


ENDLESS = """
import itertools, signal, sys
from pathlib import Path
from engine.store.export import write_table
from engine.values.table import LargeTable
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
rows = (("token", number, number / 7) for number in itertools.count())
write_table(LargeTable("attention", ("token", "index", "weight"), rows), Path(sys.argv[1]), "csv")
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_writer_leaves_no_new_file_and_keeps_an_old_one(kill: signal.Signals, folder: Path) -> None:
    old, new = write_csv(folder / "old.csv", "old"), folder / "new.csv"
    writers = {
        path: subprocess.Popen([sys.executable, "-c", ENDLESS, path], cwd=ROOT, stderr=subprocess.DEVNULL)
        for path in (old, new)
    }
    try:
        deadline = time.monotonic() + 30
        for path, writer in writers.items():
            while sum(each.stat().st_size for each in folder.glob(f".{path.name}.*")) < 100_000:  # it is in the middle
                assert time.monotonic() < deadline
                time.sleep(0.02)
            writer.send_signal(kill)
            writer.wait(timeout=30)
    finally:
        for writer in writers.values():
            writer.kill()
    assert old.read_text() == csv_of("old")
    assert not new.exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link_and_its_target_gets_the_rows(there: bool, folder: Path) -> None:
    target, link = folder / "data" / "target.csv", folder / "link.csv"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link.symlink_to(target)
    write_csv(link, "new")
    assert link.is_symlink()
    assert target.read_text() == csv_of("new")
    assert names(folder / "data") == ["target.csv"]


def below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "table.csv"


UNWRITABLE: list[tuple[Callable[[Path], Path], str]] = [
    (lambda folder: folder / "missing" / "table.csv", "No such file or directory"),
    (below_a_file, "Not a directory"),
    (lambda folder: folder, "folder"),
]


@pytest.mark.parametrize(("place", "said"), UNWRITABLE)
def test_a_place_that_cannot_be_written_is_named(place: Callable[[Path], Path], said: str, folder: Path) -> None:
    path = place(folder)
    before = names(folder)
    with pytest.raises(EngineError) as caught:
        write_csv(path, "a")
    line = one_line(caught.value)
    assert str(path) in line
    assert said in line
    assert names(folder) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_written_into(folder: Path) -> None:
    pipe, received = folder / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    write_csv(pipe, "a")
    reader.join(10)
    assert received == [csv_of("a")]
    assert pipe.is_fifo()


def test_arrays_read_back_exactly(folder: Path) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "L0H0.W_Q": np.random.default_rng(0).normal(size=(3, 5)),
        "L0H1.W_O": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not contiguous
        "L0H1.b_Q": np.array([1, -2], dtype=np.float16),
        "encoder.L10": np.zeros((2, 0, 4), dtype=np.float32),
    }
    path = write_npz(arrays.items(), folder / "heads.npz")
    with np.load(path, allow_pickle=False) as back:
        assert back.files == list(arrays)
        for name, array in arrays.items():
            assert back[name].dtype == array.dtype
            np.testing.assert_array_equal(back[name], array)
    assert names(folder) == ["heads.npz"]


def test_an_unused_name_is_found_beside_the_used_ones(folder: Path) -> None:
    found = []
    for _ in range(3):
        found.append(unused_path(Path("gpt2-ranks.csv.gz")))
        found[-1].touch()
    assert [each.name for each in found] == ["gpt2-ranks.csv.gz", "gpt2-ranks-2.csv.gz", "gpt2-ranks-3.csv.gz"]
    assert {each.parent for each in found} == {folder}
