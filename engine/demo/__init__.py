"""The demo model: a small Llama that ships with the package, and the code that trained it."""

from pathlib import Path

MODEL_DIRECTORY: Path = Path(__file__).resolve().parent / "model"
"""The folder that holds the demo model, in the layout of the Hub."""
