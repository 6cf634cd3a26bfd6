"""A file that is being written when the program ends leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

from tests.opening import run_apart

WRITING = """
import sys, threading
from pathlib import Path
from engine.store.files import requested_file
from engine.service.queue import Writer

begun = threading.Event()

def write(check):
    with requested_file(Path(sys.argv[1])) as partial:
        partial.write_text("rows")
        begun.set()
        while True:
            check()

Writer(lambda view: None).begin(write)
assert begun.wait(60)
"""


def test_nothing_is_left_of_a_file_that_a_program_ends_in_the_middle_of(tmp_path: Path) -> None:
    run_apart(WRITING, tmp_path / "heads.csv")
    assert list(tmp_path.glob(".heads*")) == []
    assert not (tmp_path / "heads.csv").exists()
