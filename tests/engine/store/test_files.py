"""A file that a person asked for is complete or absent, whatever happens while it is written."""

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
    """Read a CSV file as anybody would."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def interrupted(error: BaseException) -> Iterator[Sequence[Cell]]:
    """Give rows, and then an error instead of the rest."""
    for number in range(50_000):
        yield ("token", number, number / 7)
    raise error


def write_csv(table: AnyTable, path: Path) -> Path:
    """Write a table as CSV and give the path."""
    return write_table(table, path, "csv")


def names(folder: Path) -> list[str]:
    """List what is in a folder, hidden files too."""
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


def test_the_first_line_names_the_columns_and_lines_end_alike_everywhere(folder: Path) -> None:
    path = write_csv(table(("a", 1, 0.5), ("b", 2, 0.25)), folder / "table.csv")
    assert path.read_bytes() == b"token,index,weight\na,1,0.5\nb,2,0.25\n"


@pytest.mark.parametrize("error", [ValueError("in the middle"), KeyboardInterrupt(), OSError(28, "No space left")])
def test_an_error_in_the_middle_leaves_nothing(error: BaseException, folder: Path) -> None:
    with pytest.raises((type(error), EngineError)):
        write_csv(LargeTable("attention", COLUMNS, interrupted(error)), folder / "table.csv")
    assert names(folder) == []


def test_an_error_in_the_middle_keeps_the_old_file(folder: Path) -> None:
    path = write_csv(table(("old", 1, 0.5)), folder / "table.csv")
    with pytest.raises(ValueError, match="middle"):
        write_csv(LargeTable("attention", COLUMNS, interrupted(ValueError("in the middle"))), path)
    assert read_back(path)[0]["token"] == "old"
    assert names(folder) == ["table.csv"]


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
from engine.values.table import Table
from engine.values.table import LargeTable
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
rows = (("token", number, number / 7) for number in itertools.count())
write_table(LargeTable("attention", ("token", "index", "weight"), rows), Path(sys.argv[1]), "csv")
"""


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_in_the_middle_no_half_file_has_that_name(kill: signal.Signals, old: bool, folder: Path) -> None:
    path = folder / "table.csv"
    if old:
        write_csv(table(("old", 1, 0.5)), path)
    writer = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while sum(each.stat().st_size for each in folder.iterdir()) < 100_000:  # it is in the middle
            assert time.monotonic() < deadline
            time.sleep(0.02)
        writer.send_signal(kill)
        writer.wait(timeout=30)
    finally:
        writer.kill()
    if old:
        assert [row["token"] for row in read_back(path)] == ["old"]
    else:
        assert not path.exists()


def refusal(path: Path) -> str:
    """Give the line that says why a file cannot be written."""
    with pytest.raises(EngineError) as caught:
        write_csv(table(("a", 1, 0.5)), path)
    line = str(caught.value)
    assert str(path) in line
    assert "\n" not in line
    return line


def test_a_place_that_is_not_there_is_named(folder: Path) -> None:
    assert "No such file or directory" in refusal(folder / "missing" / "table.csv")
    (folder / "file").touch()
    assert "Not a directory" in refusal(folder / "file" / "table.csv")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_place_that_may_not_be_written_to_is_named(folder: Path) -> None:
    folder.chmod(0o500)
    assert "Permission denied" in refusal(folder / "table.csv")
    folder.chmod(0o700)


def test_a_folder_is_no_file(folder: Path) -> None:
    assert "folder" in refusal(folder)
    assert names(folder) == []


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_a_link_that_leads_in_a_circle_is_named(folder: Path) -> None:
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
    """Give ``/dev/null`` or its like; to the administrator, who could replace it by a file, a copy of it."""
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


def test_a_full_disk_is_said(folder: Path) -> None:
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


def test_arrays_cut_off_by_an_error_leave_nothing(folder: Path) -> None:
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
