"""An exported file is complete or absent, whatever happens while it is written."""

from __future__ import annotations

import csv
import math
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.store.export import write_npz, write_table
from engine.store.files import unused_path
from engine.values.errors import EngineError
from engine.values.table import AnyTable, Cell, LargeTable, Table
from tests.opening import ROOT

COLUMNS = ("token", "index", "weight")


def table(*rows: Sequence[Cell]) -> Table:
    """Make a small table."""
    return Table.of_rows("attention", COLUMNS, rows)


def read_back(path: Path) -> list[dict[str, str]]:
    """Read a CSV file with the standard library."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def interrupted(error: BaseException) -> Iterator[Sequence[Cell]]:
    """Yield rows, and then raise an error."""
    for number in range(50_000):
        yield ("token", number, number / 7)
    raise error


def write_csv(table: AnyTable, path: Path) -> Path:
    """Write a table as CSV."""
    return write_table(table, path, "csv")


def names(folder: Path) -> list[str]:
    """List a folder, including hidden files."""
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make an empty folder."""
    made = tmp_path / "exports"
    made.mkdir()
    return made


def test_numbers_read_back_exactly(folder: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2**63, 2000, dtype=np.int64).view(np.float64)
    numbers = [*bits[np.isfinite(bits)].tolist(), 0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 0.0, -0.0,
               2.0**53 + 2, float(np.float32(0.1)), math.inf]  # fmt: skip
    path = write_csv(table(*(("x", 2**62 + 1, number) for number in numbers)), folder / "numbers.csv")
    rows = read_back(path)
    assert [struct.pack("d", float(row["weight"])) for row in rows] == [struct.pack("d", each) for each in numbers]
    assert {row["index"] for row in rows} == {str(2**62 + 1)}


TOKENS = ["a,b", 'say "hi"', "line\nbreak", "日本語 😀", "[bold]", " lead", "", "=1+1", "\x1b[31m"]


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_read_back_exactly(token: str, folder: Path) -> None:
    path = write_csv(table((token, 1, 0.5)), folder / "tokens.csv")
    assert read_back(path)[0]["token"] == token


def test_the_first_line_names_the_columns_and_lines_end_with_a_newline(folder: Path) -> None:
    path = write_csv(table(("a", 1, 0.5), ("b", 2, 0.25)), folder / "table.csv")
    assert path.read_bytes() == b"token,index,weight\na,1,0.5\nb,2,0.25\n"


@pytest.mark.parametrize("error", [ValueError("in the middle"), KeyboardInterrupt(), OSError(28, "No space left")])
def test_an_error_in_the_middle_leaves_no_new_file_and_keeps_an_old_one(error: BaseException, folder: Path) -> None:
    old = write_csv(table(("old", 1, 0.5)), folder / "old.csv")
    for path in (old, folder / "new.csv"):
        with pytest.raises((type(error), EngineError)):
            write_csv(LargeTable("attention", COLUMNS, interrupted(error)), path)
    assert read_back(old)[0]["token"] == "old"
    assert names(folder) == ["old.csv"]


def test_an_old_file_is_replaced_and_keeps_its_permissions(folder: Path) -> None:
    path = write_csv(table(("old", 1, 0.5), ("older", 2, 0.5)), folder / "table.csv")
    path.chmod(0o640)
    write_csv(table(("new", 1, 0.5)), path)
    assert [row["token"] for row in read_back(path)] == ["new"]
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


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_writer_leaves_no_new_file_and_keeps_an_old_one(kill: signal.Signals, folder: Path) -> None:
    old, new = folder / "old.csv", folder / "new.csv"
    write_csv(table(("old", 1, 0.5)), old)
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
    assert [row["token"] for row in read_back(old)] == ["old"]
    assert not new.exists()


def refusal(path: Path) -> str:
    """Return the line that says why a file cannot be written."""
    with pytest.raises(EngineError) as caught:
        write_csv(table(("a", 1, 0.5)), path)
    line = str(caught.value)
    assert str(path) in line
    assert "\n" not in line
    return line


def test_a_missing_folder_is_named(folder: Path) -> None:
    assert "No such file or directory" in refusal(folder / "missing" / "table.csv")
    (folder / "file").touch()
    assert "Not a directory" in refusal(folder / "file" / "table.csv")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission_is_named(folder: Path) -> None:
    folder.chmod(0o500)
    assert "Permission denied" in refusal(folder / "table.csv")
    folder.chmod(0o700)


def test_a_folder_is_no_file(folder: Path) -> None:
    assert "folder" in refusal(folder)
    assert names(folder) == []


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_a_circular_link_is_named(folder: Path) -> None:
    (folder / "a.csv").symlink_to(folder / "b.csv")
    (folder / "b.csv").symlink_to(folder / "a.csv")
    refusal(folder / "a.csv")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link_and_its_target_gets_the_rows(there: bool, folder: Path) -> None:
    target, link = folder / "data" / "target.csv", folder / "link.csv"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link.symlink_to(target)
    write_csv(table(("new", 1, 0.5)), link)
    assert link.is_symlink()
    assert [row["token"] for row in read_back(target)] == ["new"]
    assert names(folder / "data") == ["target.csv"]


def device(name: str, minor: int, folder: Path) -> Path:
    """Return a device such as ``/dev/null``, or a copy of it for the superuser, who could replace it by a file."""
    original = Path("/dev") / name
    if sys.platform != "linux" or not original.is_char_device():
        pytest.skip(f"there is no {original} here")
    if os.geteuid() != 0:
        return original
    try:
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        (folder / name).open("w").close()
    except OSError:
        pytest.skip("no devices can be made here")
    return folder / name


def test_a_device_stays_a_device(folder: Path) -> None:
    null = device("null", 3, folder)
    write_csv(table(("a", 1, 0.5)), null)
    assert null.is_char_device()
    assert names(folder) in ([], ["null"])


def test_a_full_disk_is_named(folder: Path) -> None:
    assert "No space left" in refusal(device("full", 7, folder))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_written_into(folder: Path) -> None:
    pipe, received = folder / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    write_csv(table(("a", 1, 0.5)), pipe)
    reader.join(10)
    assert received == ["token,index,weight\na,1,0.5\n"]
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


def test_arrays_interrupted_by_an_error_leave_nothing(folder: Path) -> None:
    def arrays() -> Iterator[tuple[str, NDArray[Any]]]:
        yield "L0H0.W_Q", np.zeros(1000)
        raise EngineError("layer 1 holds NaN")

    with pytest.raises(EngineError, match="layer 1"):
        write_npz(arrays(), folder / "heads.npz")
    assert names(folder) == []


def test_an_unused_name_is_found_beside_the_used_ones(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = []
    for _ in range(3):
        found.append(unused_path(Path("gpt2-ranks.csv.gz")))
        found[-1].touch()
    assert [each.name for each in found] == ["gpt2-ranks.csv.gz", "gpt2-ranks-2.csv.gz", "gpt2-ranks-3.csv.gz"]
    assert {each.parent for each in found} == {folder}
