"""All measurements, each in a separate process: ``python -m tests.benchmarks [NAME …]``; names select some of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

NOT_MEASUREMENTS = {"__init__", "__main__", "machine"}


def main() -> None:
    """Run the measurements that were named, or all, and leave with 1 if one fails."""
    every = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem not in NOT_MEASUREMENTS)
    unknown = set(sys.argv[1:]) - set(every)
    if unknown:
        sys.exit(f"there is no measurement {min(unknown)}; there are {', '.join(every)}")
    failed = []
    for name in sys.argv[1:] or every:
        print(f"python -m tests.benchmarks.{name}", flush=True)
        start = time.monotonic()
        if subprocess.run([sys.executable, "-m", f"tests.benchmarks.{name}"], check=False).returncode:
            failed.append(name)
        print(f"({time.monotonic() - start:.0f} s)\n", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
