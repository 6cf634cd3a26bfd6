"""Show which planted faults the tests catch: ``python -m tests.faults [--quick] [FAULT …]``.

Each fault is planted in a copy of the tree, and the tests run there until the first fails. The test that failed must
pass again without the fault, or it has caught nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[2]

FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)

SECONDS = 1800
"""For the tests of one fault."""


@dataclass(frozen=True)
class Fault:
    """A part of a file that is replaced by another.

    Attributes
    ----------
    name, says : what it is called, and what is wrong with it.
    tests : the file whose tests catch it.
    file, old, new : the part ``old`` of this file becomes ``new``.
    """

    name: str
    says: str
    tests: str
    file: str
    old: str
    new: str

    def count(self, tree: Path) -> int:
        """Say how often what is replaced stands in the file; once, or it does not fit."""
        file = tree / self.file
        return file.read_text(encoding="utf-8").count(self.old) if file.is_file() else 0

    @contextmanager
    def planted(self, tree: Path) -> Iterator[None]:
        """Plant the fault in a tree, and take it out again."""
        file = tree / self.file
        whole = file.read_text(encoding="utf-8")
        file.write_text(whole.replace(self.old, self.new), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(whole, encoding="utf-8")


def all_faults() -> list[Fault]:
    listed = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
    return [Fault(name, **fields) for name, fields in listed.items()]


def copy_of_the_tree(folder: Path) -> Path:
    """Copy what git tracks or would, as it is on disk."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run_tests(tree: Path, *arguments: str) -> tuple[int, str]:
    """Run tests in a tree; give pytest's exit code, and the first that failed."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "--maxfail=1"]
    try:
        done = subprocess.run(
            [*command, *arguments], cwd=tree, capture_output=True, text=True, timeout=SECONDS, check=False,
            env=os.environ | {"PYTHONPATH": str(tree)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, ""
    failed = FAILED.search(done.stdout)
    return done.returncode, "" if failed is None else failed[1]


def outcome(fault: Fault, tree: Path, is_quick: bool) -> str:
    """Say which test catches a fault, or in capitals why none does."""
    if fault.count(tree) != 1:
        return f"DOES NOT FIT: {fault.file} has {fault.count(tree)} such parts"
    chosen = ("-n", "0", fault.tests) if is_quick else ("--ignore=tests/test_faults.py",)
    with fault.planted(tree):
        code, failed = run_tests(tree, *chosen)
    if code == -1:
        return "MISSED: the tests did not end"
    if not failed:
        return "MISSED" if code == 0 else f"MISSED: pytest ended with {code}"
    again, _ = run_tests(tree, "-n", "0", failed)
    return failed if again == 0 else f"MISSED: {failed} fails without the fault too"


def main() -> None:
    faults = {fault.name: fault for fault in all_faults()}
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("fault", nargs="*", help="its name; all unless given")
    parser.add_argument("--quick", action="store_true", help="run only the file that each fault names")
    parser.add_argument("--jobs", type=int, default=1, help="faults that are tried at once")
    given = parser.parse_args()
    if unknown := [name for name in given.fault if name not in faults]:
        parser.error(f"there is no fault {unknown[0]}")
    chosen = [faults[name] for name in given.fault] or list(faults.values())
    width = max(len(fault.name) for fault in chosen)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, ThreadPoolExecutor(given.jobs) as workers:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.jobs):
            trees.put(copy_of_the_tree(Path(folder, str(number))))

        def tried(fault: Fault) -> str:
            tree = trees.get()
            try:
                return outcome(fault, tree, given.quick)
            finally:
                trees.put(tree)

        missed = 0
        for fault, found in zip(chosen, workers.map(tried, chosen), strict=True):
            missed += not found.startswith("tests/")
            print(f"{fault.name:{width}}  {found}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults are caught")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
