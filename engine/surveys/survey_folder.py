"""The folder of a survey: a Parquet file for each checkpoint and table, and what could not be measured.

``model=…/revision=…/ranks.parquet`` has the table of one checkpoint behind the columns ``model``, ``revision`` and
``step``. Files are whole or absent, so that several runs can write into one folder. What a file was made with is in
its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from engine.checkpoints.model_folders import SURVEY
from engine.store.export import write_table
from engine.store.files import replaced_file, requested_file
from engine.surveys.checkpoint_names import MAIN, CheckpointName, step_of
from engine.values.errors import EngineError
from engine.values.table import Table

if TYPE_CHECKING:
    import polars

FAILURES = "failures.parquet"
FAILURE = "failure.json"
"""Beside the tables of a checkpoint, why it could not be measured the last time."""

MADE_WITH = "attn-tui survey"
"""The key of a file's metadata under which stands what it was made with."""

IDENTITY = ("model", "revision", "step")
"""The columns that each table has before its own."""


@dataclass(frozen=True)
class SurveyFolder:
    """Where the tables of a survey are; which there are is looked up once.

    Attributes
    ----------
    path : the folder; it need not be there yet.
    """

    path: Path

    @classmethod
    def at(cls, path: str | Path) -> SurveyFolder | None:
        """Give the survey that is in a folder, or None where there is none."""
        folder = cls(Path(path).expanduser())
        return folder if (folder.path / SURVEY).is_file() else None

    def __repr__(self) -> str:
        tables = ", ".join(self.tables)
        return f"survey in {self.path} · {len(self.checkpoints)} checkpoints · {tables}"

    # --- writing

    def create(self, facts: Mapping[str, Any]) -> None:
        """Make the folder, and write what the survey is made with.

        Raises `EngineError` when it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with replaced_file(self.path / SURVEY) as partial:
                partial.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise EngineError(f"{self.path} cannot be written: {error.strerror or error}; choose another -o") from error

    def write(self, checkpoint: CheckpointName, table: Table, made_with: str) -> int:
        """Write a table of a checkpoint, and give its rows; raises `EngineError` when that cannot be done."""
        import polars as pl

        place = self.file(checkpoint, table.name)
        kinds = (pl.String, pl.String, pl.Int64)
        columns = (
            pl.lit(value, kind).alias(name)
            for name, value, kind in zip(IDENTITY, checkpoint.identity, kinds, strict=True)
        )
        _make_folder(place.parent)
        write_table(table.with_frame(table.frame.select(*columns, pl.all())), place, "parquet", {MADE_WITH: made_with})
        return table.frame.height

    def write_failure(self, checkpoint: CheckpointName, reason: str) -> None:
        """Keep why a checkpoint or a part of it could not be measured; an empty reason is none. Raises as `write`."""
        place = self.path / checkpoint.folder / FAILURE
        if not reason:
            place.unlink(missing_ok=True)
            return
        _make_folder(place.parent)
        failure = dict(zip(IDENTITY, checkpoint.identity, strict=True))
        with requested_file(place) as partial:
            partial.write_text(json.dumps({**failure, "reason": reason}), encoding="utf-8")

    def gather_failures(self) -> None:
        """Write `FAILURES`, a row for each checkpoint that could not be measured; raises `EngineError` as `write`."""
        import polars as pl

        schema = {"model": pl.String, "revision": pl.String, "step": pl.Int64, "reason": pl.String}
        failures = []
        for place in sorted(self.path.glob(f"model=*/revision=*/{FAILURE}")):
            try:
                failures.append(json.loads(place.read_text(encoding="utf-8")))
            except (OSError, ValueError):  # another run has measured it meanwhile
                continue
        write_table(Table("failures", pl.DataFrame(failures, schema=schema)), self.path / FAILURES, "parquet")

    # --- reading

    @property
    def facts(self) -> dict[str, Any]:
        """What was written of it when it was last added to; empty where nothing can be read."""
        try:
            found = json.loads((self.path / SURVEY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def file(self, checkpoint: CheckpointName, table: str) -> Path:
        """Say where a table of a checkpoint is, or would be."""
        return self.path / checkpoint.folder / f"{table}.parquet"

    def has(self, checkpoint: CheckpointName, table: str, made_with: str) -> bool:
        """Say whether a table of a checkpoint is there, made with this, or with this and more."""
        found = read_made_with(self.file(checkpoint, table))
        return found is not None and bool(json.loads(made_with).items() <= found.items())

    @cached_property
    def files(self) -> dict[str, dict[CheckpointName, Path]]:
        """The files of each table, by checkpoint."""
        found = dict[str, dict[CheckpointName, Path]]()
        for name in sorted(glob("model=*/revision=*/*.parquet", root_dir=self.path)):
            model, revision, table = (unquote(each) for each in name.split("/"))
            checkpoint = _checkpoint_named(model.removeprefix("model="), revision.removeprefix("revision="))
            found.setdefault(table.removesuffix(".parquet"), {})[checkpoint] = self.path / name
        return found

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that some checkpoint has."""
        return tuple(sorted(self.files))

    @cached_property
    def checkpoints(self) -> tuple[CheckpointName, ...]:
        """The checkpoints that have a table, by model and step."""
        found = {checkpoint for files in self.files.values() for checkpoint in files}
        return tuple(sorted(found, key=lambda each: (each.model, each.step or 0, each.revision)))

    def frame(self, table: str) -> polars.DataFrame:
        """Read a table of all checkpoints.

        Raises `EngineError` when no checkpoint has it.
        """
        if table not in self.files:
            raise EngineError(f"no checkpoint in {self.path} has the table {table}; it has {', '.join(self.tables)}")
        return scan_files(self.files[table].values()).collect()

    @property
    def failures(self) -> polars.DataFrame:
        """What could not be measured: ``model``, ``revision``, ``step``, ``reason``."""
        import polars as pl

        return pl.read_parquet(self.path / FAILURES)

    @property
    def failed(self) -> int:
        """How many checkpoints could not be measured, as far as that has been gathered."""
        try:
            return self.failures.height
        except OSError:
            return 0


def scan_files(places: Iterable[Path]) -> polars.LazyFrame:
    """Give the rows of files of one table without reading them yet."""
    import polars as pl

    # Later versions may add columns behind the others.
    return pl.scan_parquet([*places], hive_partitioning=False, missing_columns="insert", extra_columns="ignore")


def read_made_with(place: Path) -> dict[str, Any] | None:
    """Read what a file was made with; None if it is not there, or not whole."""
    import polars as pl

    try:
        found: dict[str, Any] = json.loads(pl.read_parquet_metadata(place).get(MADE_WITH, "{}"))
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None
    return found


def _checkpoint_named(model: str, revision: str) -> CheckpointName:
    step = step_of(revision)
    is_of_run = Path(model).is_absolute() and revision != MAIN
    return CheckpointName(model, revision, step_of(Path(model).name) if step is None else step, is_of_run)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(f"{folder} cannot be made: {error.strerror or error}; choose another -o") from error
