"""Show which planted faults the tests catch: ``python -m tests.faults [--quick] [FAULT …]``.

Each patch is applied to a copy of the tree, and the tests run there until the first fails. The test that failed must
pass again without the patch, or it has caught nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[2]

FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)

SECONDS = 1800
"""For the tests of one fault."""


@dataclass(frozen=True)
class Fault:
    """One patch.

    Attributes
    ----------
    path : of the patch.
    says : what is wrong with it, its first line.
    tests : the files that catch it, its second line.
    """

    path: Path
    says: str
    tests: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Fault:
        """Read a patch's two first lines."""
        says, tests, *_ = path.read_text(encoding="utf-8").splitlines()
        return cls(path, says, tuple(tests.removeprefix("# tests:").split()))

    @property
    def name(self) -> str:
        """What the patch is called."""
        return self.path.stem

    def apply(self, tree: Path, *options: str) -> str:
        """Apply the patch to a tree; give why it does not fit, or nothing."""
        done = subprocess.run(
            ["git", "apply", *options, self.path], cwd=tree, capture_output=True, text=True, check=False,
            env=os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)},
        )  # fmt: skip
        return done.stderr.strip() if done.returncode else ""


def all_faults() -> list[Fault]:
    """Read every patch."""
    return [Fault.read(path) for path in sorted(Path(__file__).parent.glob("*.patch"))]


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
    if why := fault.apply(tree):
        return f"DOES NOT APPLY: {why.splitlines()[0]}"
    try:
        chosen = ("-n", "0", *fault.tests) if is_quick else ("--ignore=tests/test_faults.py",)
        code, failed = run_tests(tree, *chosen)
    finally:
        fault.apply(tree, "--reverse")
    if code == -1:
        return "MISSED: the tests did not end"
    if not failed:
        return "MISSED" if code == 0 else f"MISSED: pytest ended with {code}"
    again, _ = run_tests(tree, "-n", "0", failed)
    return failed if again == 0 else f"MISSED: {failed} fails without the fault too"


def main() -> None:
    """Read the command line, try the faults, and print a line for each."""
    faults = {fault.name: fault for fault in all_faults()}
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("fault", nargs="*", help="a patch's name; all unless given")
    parser.add_argument("--quick", action="store_true", help="run only the files that each patch names")
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
