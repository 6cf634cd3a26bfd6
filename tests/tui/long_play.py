"""Keys at random for as long as is wanted: ``python -m tests.tui.long_play --seed 7 --keys 20000 demo FOLDER …``."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

from tests.tui.monkey import Monkey


def main() -> None:
    """Play for long."""
    parser = argparse.ArgumentParser(prog="python -m tests.tui.long_play", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keys", type=int, default=20000)
    parser.add_argument("--rests", type=float, default=0.03)
    parser.add_argument("--try-keys", action="store_true", help="press every key that the line at the foot shows, too")
    parser.add_argument("models", nargs="*", default=["demo"])
    asked = parser.parse_args()
    models = [model if model == "demo" else str(Path(model).resolve()) for model in asked.models]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HF_HUB_OFFLINE"] = "1"  # what is typed may be a model's name
        os.environ |= {f"XDG_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
        os.chdir(home)  # where exports go
        monkey = Monkey(asked.seed, models, asked.rests, asked.try_keys)
        began, used = time.monotonic(), time.process_time()
        asyncio.run(monkey.play(asked.keys))
    took = f"{time.monotonic() - began:.0f} s, {time.process_time() - used:.0f} s of them at work"
    for found in monkey.found:
        print(found, end="\n\n")
    print(f"seed {asked.seed}: {monkey.pressed} keys, {monkey.opened} explorers, {monkey.switched} switches, {took}")


if __name__ == "__main__":
    main()
