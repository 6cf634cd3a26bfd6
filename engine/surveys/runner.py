"""A survey: tables of many checkpoints by a Dask cluster, of this machine or of any that has its scheduler running.

The tasks are of one checkpoint each and only so many are with the scheduler at a time; files say what is done, so
that a survey which ended early goes on where it was.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.checkpoints.download import branches_of
from engine.store.files import write_log
from engine.surveys.checkpoint_names import CheckpointName, names_of
from engine.surveys.survey_folder import SurveyFolder
from engine.surveys.tasks import Order, Outcome, fetch, measure
from engine.values.errors import EngineError
from engine.values.options import EngineOptions, thread_environment
from engine.values.progress import Rate
from engine.values.views import HEAD_PARTS, VIEWS, Query

if TYPE_CHECKING:
    from distributed import Client, Future

RUN = ("patterns", "rollout", "predictions", "lens", "contributions", "ablation", "check")
"""Tables for which the model is run."""

TABLES = ("ranks", "spectrum", "circuits", "composition", "directions", "heads", "weights", *RUN)
"""What can be measured."""

DEFAULT_ENERGY = 0.01
"""ε of energy ranks."""

DOWNLOADS = 2
"""Checkpoints that are fetched at a time."""

AHEAD = 16
"""Tasks that are with the scheduler for each that a worker does, so that none waits for the next."""

LOOK_SECONDS = 1.0
"""How often progress is told while nothing ends, and a training run looked at."""

COUNT_SECONDS = 2.0
"""How often workers are counted, which may come and go."""

GATHER_SECONDS = 5.0
"""How often failures are gathered into one file."""

CONNECT_SECONDS = 10.0
"""How long a scheduler may take to answer."""

SCHEDULER_GONE = "the scheduler has gone; start it again, then the same command goes on"

CLOSE_SECONDS = 5.0
"""How long the workers of this machine have to end by themselves."""

DEATHS = 30
"""Workers that may die of one task before the task counts as their killer: a machine that takes them away is no fault
of a checkpoint's."""


@dataclass(frozen=True)
class SurveyProgress:
    """How far a survey is.

    Attributes
    ----------
    total : checkpoints.
    here : how many were measured before.
    done, failed : how many have been measured since, and could not be.
    running : how many are with the workers now.
    rate : checkpoints a second; None at the beginning.
    checkpoint, outcome : what ended just now, and how.
    """

    total: int
    here: int
    done: int = 0
    failed: int = 0
    running: int = 0
    rate: float | None = None
    checkpoint: CheckpointName | None = None
    outcome: Outcome | None = None


def survey(
    models: str | Path | Iterable[str | Path],
    output: str | Path,
    tables: str | Iterable[str] = ("ranks",),
    *,
    text: str | None = None,
    energy: float = DEFAULT_ENERGY,
    options: EngineOptions | None = None,
    workers: int | None = None,
    threads: int = 1,
    scheduler: str | None = None,
    downloads: int = DOWNLOADS,
    keep: bool = False,
    watch: bool = False,
    dashboard: bool = False,
    report: Callable[[SurveyProgress], None] = lambda progress: None,
    announce: Callable[[str], None] = lambda said: None,
) -> SurveyFolder:
    """Measure many checkpoints, each with its own task, and write a Parquet file for each and each table.

    What is there already, made with the same options of the same files, is not measured again. In a script this is
    called under ``if __name__ == "__main__":``, since the workers are processes that import the script.

    Parameters
    ----------
    models : ids, folders, ``id@revision``, ``id@step1,step2``, ``id@log``, folders of training runs.
    output : the survey's folder; with a scheduler of several machines the same folder on each.
    tables : names of `TABLES`, also as a text with commas; the model is run only for those that need it.
    text : the sentence of the tables that need one.
    energy : ε of the energy rank.
    options : device, dtype and the like.
    workers, threads : processes of a cluster on this machine, as many as there are processors unless given, and the
        threads of linear algebra in each.
    scheduler : the address of a running scheduler, in the place of that cluster.
    downloads : checkpoints that are downloaded at a time; each goes again once it is measured.
    keep : whether downloads stay in the survey's folder.
    watch : whether to go on for ever and measure new checkpoints of training runs.
    dashboard : whether Dask's dashboard is served on this machine.
    report : told after each checkpoint, and about once a second.
    announce : told where the dashboard is.

    Raises
    ------
    EngineError : when a name, a table or the folder is wrong, or the scheduler does not answer or goes away. A
        checkpoint that cannot be measured is a row of ``failures`` instead.
    """
    named = [str(each) for each in ([models] if isinstance(models, str | Path) else models)]
    if not named:
        raise EngineError("no model is named; give an id, a folder or a training run")
    tables = tables_named(tables)
    query = query_of(tables, text, energy)
    if watch and not any(Path(model).expanduser().is_dir() for model in named):
        raise EngineError("nothing to watch: --watch waits for checkpoints of a training run; give its folder")
    options = replace(options or EngineOptions(), use_cache=False)  # of spectra, which nobody looks up again
    folder = SurveyFolder(Path(output).expanduser().resolve())
    branches = cache(branches_of)

    def orders(known: dict[CheckpointName, str]) -> list[Order]:
        found = {each: each.files() for each in names_of(named, branches, waits=watch)}
        new = {each: files for each, files in found.items() if known.get(each) != files}
        known.update(new)
        listed = []
        for each, files in new.items():
            made_with = {name: _made_with(name, query, options, files) for name in tables}
            missing = tuple(name for name in tables if not folder.has(each, name, made_with[name]))
            listed.append(Order(each, missing, folder, query, options, made_with, keep))
        return listed

    known: dict[CheckpointName, str] = {}
    listed = orders(known)
    folder.create(_facts(folder, named, tables, query, options))
    run = _Run(folder, listed, downloads, report)
    run.tell()
    if run.waiting or watch:
        cluster = _cluster(scheduler, workers, threads, dashboard=dashboard, announce=announce)
        with cluster as client:
            try:
                run.work(client, (lambda: orders(known)) if watch else None)
            except (OSError, CancelledError) as error:  # of the connection: files have errors of their own
                raise EngineError(SCHEDULER_GONE) from error
    folder.gather_failures()
    return folder


def tables_named(tables: str | Iterable[str]) -> tuple[str, ...]:
    """Take names of tables, also from a text with commas between them, each once."""
    names = tables.split(",") if isinstance(tables, str) else tables
    return tuple(dict.fromkeys(name.strip().lower() for name in names if name.strip()))


def query_of(tables: Sequence[str], text: str | None, energy: float) -> Query:
    """Return what is asked of tables; raises `EngineError` where one cannot be had."""
    if not tables:
        raise EngineError(f"no table is named; choose from {', '.join(TABLES)}")
    for name in tables:
        if name not in TABLES:
            raise EngineError(f"a survey has no table '{name}'; choose from {', '.join(TABLES)}")
        if text is None and name in VIEWS and "text" in VIEWS[name].needs:
            raise EngineError(f"{name} needs a sentence; give one with --text")
    is_run = text is not None or "patterns" in tables
    parts = tuple(sorted(part for part in HEAD_PARTS if part != "patterns" or is_run))
    return Query(text=text, epsilon=energy, parts=parts)


def _made_with(table: str, query: Query, options: EngineOptions, files: str) -> str:
    """Say what the numbers of a table depend on, as JSON; a table of heads with patterns depends on more."""
    depends: dict[str, Any] = {"files": files} if files else {}
    if table in ("ranks", "heads"):
        depends["energy"] = query.epsilon
    if table in RUN or (table == "heads" and "patterns" in (query.parts or ())):
        depends |= {"text": query.text, "dtype": options.dtype}
    return json.dumps(depends)


def _facts(
    folder: SurveyFolder, models: Sequence[str], tables: Sequence[str], query: Query, options: EngineOptions
) -> dict[str, Any]:
    before = folder.facts
    packages = ("attn-tui", "torch", "transformers", "polars", "dask")
    return {
        "versions": {name: version(name) for name in packages},
        "models": list(dict.fromkeys([*before.get("models", ()), *models])),
        "tables": list(dict.fromkeys([*before.get("tables", ()), *tables])),
        "text": query.text,
        "energy": query.epsilon,
        "options": {name: value for name, value in asdict(options).items() if value not in (None, False)}
        | {"layout": None if options.layout is None else str(options.layout)},
    }


class _Run:
    """The checkpoints of one run, on their way through the workers."""

    def __init__(
        self, folder: SurveyFolder, orders: Sequence[Order], downloads: int, report: Callable[[SurveyProgress], None]
    ) -> None:
        self.folder = folder
        self.waiting = deque[Order]()  # not with the scheduler yet
        self._downloads = downloads
        self._report = report
        self._fetched = deque[tuple[Order, str]]()
        self._fetching: dict[Future[Outcome], Order] = {}
        self._measuring: dict[Future[Outcome], Order] = {}
        self._ended: queue.SimpleQueue[Future[Outcome]] = queue.SimpleQueue()
        self._all = set[CheckpointName]()
        self._here = set[CheckpointName]()
        self._done = set[CheckpointName]()
        self._failed = set[CheckpointName]()
        self._pace = Rate()
        self._gather_at = self._count_at = 0.0
        self._at_once = 0
        self._is_shared = False
        self._add(orders)

    def tell(self, checkpoint: CheckpointName | None = None, outcome: Outcome | None = None) -> None:
        total, here, done, failed = map(len, (self._all, self._here, self._done, self._failed))
        rate = self._pace.rate(time.monotonic(), done + failed) if done + failed else None  # without the start
        running = min(len(self._fetching) + len(self._measuring), self._at_once)
        self._report(SurveyProgress(total, here, done, failed, running, rate, checkpoint, outcome))

    def work(self, client: Client, look: Callable[[], list[Order]] | None) -> None:
        """Measure what is waiting, and what ``look`` finds from time to time."""
        needs = _resources(client)
        while look or self.waiting or self._fetched or self._fetching or self._measuring:
            self._submit(client, needs)
            ended = self._all_ended()
            if client.status != "running" or any(each.status in ("cancelled", "lost") for each in ended):
                raise EngineError(SCHEDULER_GONE)
            self._take(client, ended)
            if not ended:
                if look is not None:
                    self._add(look())
                self.tell()
            if time.monotonic() > self._gather_at:
                self._gather_at = time.monotonic() + GATHER_SECONDS
                self.folder.gather_failures()

    def _add(self, orders: Sequence[Order]) -> None:
        """Take new checkpoints, and those whose files have changed."""
        new = {each.checkpoint for each in orders}
        self._all |= new
        for ended in (self._here, self._done, self._failed):
            ended -= new
        self.waiting += [each for each in orders if each.tables]
        self._here |= {each.checkpoint for each in orders if not each.tables}

    def _submit(self, client: Client, needs: Mapping[str, dict[str, float]]) -> None:
        if time.monotonic() > self._count_at:
            self._count_at = time.monotonic() + COUNT_SECONDS
            self._at_once = sum(client.nthreads().values())
        most = AHEAD * max(self._at_once, 1)
        room = most - len(self._measuring)
        if room < most // 2:
            return  # many at once cost the scheduler less
        measured: list[tuple[Order, str]] = []
        while self._fetched and len(measured) < room:
            measured.append(self._fetched.popleft())
        while self.waiting and len(measured) < room:
            order = self.waiting[0]
            if not order.checkpoint.is_on_hub:
                measured.append((order, order.checkpoint.path))
            elif len(self._fetching) + len(self._fetched) < self._downloads:
                self._follow(
                    [client.submit(fetch, order, pure=False, resources=needs["download"])], self._fetching, [order]
                )
            else:
                break
            self.waiting.popleft()
        if measured:
            orders = [order for order, _ in measured]
            paths = [path for _, path in measured]
            futures = client.map(measure, orders, paths, pure=False, resources=needs["GPU"], batch_size=len(orders))
            self._follow(futures, self._measuring, orders)

    def _follow(
        self, futures: Sequence[Future[Outcome]], among: dict[Future[Outcome], Order], orders: Sequence[Order]
    ) -> None:
        for future, order in zip(futures, orders, strict=True):
            among[future] = order
            future.add_done_callback(self._ended.put)

    def _all_ended(self) -> list[Future[Outcome]]:
        """Wait for a task to end, and give all that have; empty where none does for a while."""
        ended: list[Future[Outcome]] = []
        with suppress(queue.Empty):
            ended.append(self._ended.get(timeout=LOOK_SECONDS))
            while True:
                ended.append(self._ended.get_nowait())
        return ended

    def _take(self, client: Client, ended: Sequence[Future[Outcome]]) -> None:
        finished = [each for each in ended if each.status == "finished"]
        outcomes: dict[Future[Outcome], Outcome] = dict(zip(finished, client.gather(finished), strict=True))
        for future in ended:
            is_fetched = future in self._fetching
            order = self._fetching.pop(future) if is_fetched else self._measuring.pop(future)
            outcome = outcomes[future] if future in outcomes else self._failure(future, order)
            if is_fetched and not outcome.reason:
                self._fetched.append((order, outcome.path))
                continue
            if not (outcome.reason or self._is_shared):
                self._check_shared(order)
            (self._failed if outcome.reason else self._done).add(order.checkpoint)
            self.tell(order.checkpoint, outcome)

    def _failure(self, future: Future[Outcome], order: Order) -> Outcome:
        from distributed import KilledWorker

        error = future.exception()
        if isinstance(error, ImportError):
            raise EngineError(f"a worker lacks what a survey needs: {error}; install attn-tui[survey] there") from error
        died = f"{DEATHS} workers died of it; give fewer --workers, or each more memory"
        outcome = Outcome(reason=died if isinstance(error, KilledWorker) else write_log(error))
        with suppress(EngineError):
            self.folder.write_failure(order.checkpoint, outcome.reason)
        return outcome

    def _check_shared(self, order: Order) -> None:
        """Refuse workers that write where this process cannot read."""
        self._is_shared = self.folder.file(order.checkpoint, order.tables[0]).exists()
        if not self._is_shared:
            raise EngineError(f"{self.folder.path} is another folder for the workers; give one that all machines share")


def _resources(client: Client) -> dict[str, dict[str, float]]:
    """Say what a task needs of a worker, of the resources that some worker says it has."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    offered = {name for worker in workers for name in worker.get("resources", {})}
    return {name: {name: 1.0} if name in offered else {} for name in ("GPU", "download")}


@contextmanager
def _silent() -> Iterator[None]:
    """Keep Dask, which is imported by now, from saying at length what is said in a line here."""
    loud = ("distributed", "tornado", "asyncio")
    names = [each for each in logging.root.manager.loggerDict if each.partition(".")[0] in loud]
    levels = {each: logging.getLogger(each).level for each in names}
    try:
        for each in names:
            logging.getLogger(each).setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for each, level in levels.items():
            logging.getLogger(each).setLevel(level)


@contextmanager
def _event_loop() -> Iterator[Any]:
    """Run an event loop whose workers leave ctrl+c, which a terminal sends to all its processes, to this process."""
    from distributed.utils import LoopRunner

    runner = LoopRunner()
    resource_tracker.ensure_running()  # here, as it unblocks signals in the thread that begins it
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # threads and processes inherit this
    try:
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    try:
        yield runner.loop
    finally:
        runner.stop()


@contextmanager
def _cluster(
    scheduler: str | None, workers: int | None, threads: int, *, dashboard: bool, announce: Callable[[str], None]
) -> Iterator[Client]:
    """Connect to a scheduler, or begin a cluster on this machine that ends with the block."""
    try:
        import dask
        from distributed import Client, LocalCluster, Security
    except ImportError as error:
        raise EngineError(f"a survey needs Dask ({error}); install it with: pip install 'attn-tui[survey]'") from error
    if scheduler is not None:
        with _silent():
            try:
                client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
            except (OSError, ValueError, TimeoutError) as error:
                raise EngineError(f"no scheduler answers at {scheduler}; start one with: dask scheduler") from error
            with client:
                if dashboard:
                    announce(client.dashboard_link)
                yield client
        return
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Workers import torch long after: threads are limited in the environment that they begin with.
    settings = {
        "distributed.nanny.pre-spawn-environ": thread_environment(threads),
        "distributed.scheduler.allowed-failures": DEATHS,
        "distributed.worker.profile.enabled": False,  # nobody looks at it, and it slows short tasks
        "distributed.admin.tick.interval": "1s",  # each wakes a worker's second thread, which a task then waits for
        "distributed.worker.daemon": False,  # a download is a process of its own
        "logging.distributed": "critical",
    }
    with dask.config.set(settings), _silent(), _event_loop() as loop:
        count = workers or max(available // threads, 1)
        cluster = LocalCluster(
            loop=loop,
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            security=Security.temporary(),  # an open port of this machine takes anybody's pickles
            dashboard_address="localhost:8787" if dashboard else None,
            scheduler_kwargs={} if dashboard else {"dashboard_address": "localhost:0"},  # 8787 is for the dashboard
            silence_logs=logging.CRITICAL,
        )
        cluster.adapt(minimum=count, maximum=count)  # begins others for those that end for good
        try:
            with Client(cluster, set_as_default=False) as client:
                if dashboard:
                    announce(cluster.dashboard_link)
                yield client
        finally:
            with suppress(TimeoutError):
                cluster.close(timeout=CLOSE_SECONDS)
