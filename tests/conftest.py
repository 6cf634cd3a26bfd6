"""What every test stands on: places of its own on disk, no network, and tiny models made once per session."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.toolkit import suit_tests

if TYPE_CHECKING:
    from tests.fake_hub import FakeHub

_HOME = tempfile.mkdtemp(prefix="attn-tui-tests-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

_HUB_HOME = os.environ.get("HF_HOME", os.path.expanduser("~/.cache/huggingface"))
PERSONS_HUB_CACHE = Path(os.environ.get("HF_HUB_CACHE", f"{_HUB_HOME}/hub"))
"""Where whoever runs the tests keeps real models; only the tests of published numbers look there, and only read."""

# Libraries read these when they are imported, so they are set before any test module is.
os.environ |= {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HOME": f"{_HOME}/huggingface",
    "HF_ENDPOINT": "http://127.0.0.1:9",  # nobody listens there: no test reaches the real Hub
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}
for _name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE",
              "TRANSFORMERS_OFFLINE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
              "all_proxy", "COLUMNS", "LINES"):  # fmt: skip  # the last two are of another terminal than a test's
    os.environ.pop(_name, None)
for _name in [_name for _name in os.environ if _name.startswith("ATTN_TUI_")]:  # settings of whoever runs the tests
    os.environ.pop(_name)

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # a GPU rounds otherwise; name one to run the tests there

suit_tests()

TinyModel = Callable[..., Path]

CallsOf = Callable[[Any, str], list[tuple[Any, ...]]]


def pytest_collection_finish() -> None:
    """Keep what is imported by now out of the garbage collector's rounds, and have fewer of them.

    What is imported lives as long as the tests; a round over the widgets of an explorer takes a sixth of its test.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own caches, settings and logs out of every test, and the tests out of them."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))


@pytest.fixture(autouse=True)
def engines_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the engines of a test, whose threads and models a program leaves to the end of its process."""
    from engine.service.engine import Engine

    begun: list[Engine] = []
    begin = Engine.__init__

    def begin_and_list(engine: Engine, *given: Any, **named: Any) -> None:
        begin(engine, *given, **named)
        begun.append(engine)

    monkeypatch.setattr(Engine, "__init__", begin_and_list)
    yield
    for engine in begun:
        engine.stop()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """Give the folder of a tiny random model of a type, made when it is first asked for.

    Called with the model type, ``with_head=True`` for the class with a language-modelling head, and configuration
    settings by their usual names. The folder is shared between tests: one that changes a file copies it first.
    """
    from tests import tiny_models
    from tests.tiny_configurations import tiny_configuration

    made: dict[str, Path] = {}

    def make(model_type: str, *, with_head: bool = False, **settings: Any) -> Path:
        key = repr((model_type, with_head, sorted(settings.items())))
        if key not in made:
            made[key] = tmp_path_factory.mktemp(model_type)
            model = tiny_models.build(tiny_configuration(model_type, **settings), with_head)
            tiny_models.save(model, made[key])
        return made[key]

    return make


@pytest.fixture
def tiny_copy(tiny_model: TinyModel, tmp_path: Path) -> TinyModel:
    """Like `tiny_model`, but a copy that the test may damage."""

    def copy(model_type: str, **settings: Any) -> Path:
        return Path(shutil.copytree(tiny_model(model_type, **settings), tmp_path / f"{model_type}-copy"))

    return copy


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty folder and start the program in it."""
    made = tmp_path / "written"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def calls_of(monkeypatch: pytest.MonkeyPatch) -> CallsOf:
    """Give a function that lists the arguments of every call of a function from then on."""

    def listed(owner: Any, name: str) -> list[tuple[Any, ...]]:
        own, calls = getattr(owner, name), list[tuple[Any, ...]]()

        def noting(*arguments: Any, **named: Any) -> Any:
            calls.append(arguments)
            return own(*arguments, **named)

        monkeypatch.setattr(owner, name, noting)
        return calls

    return listed


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Run a Hub of our own, with an empty cache."""
    from tests.fake_hub import FakeHub, point_at

    with FakeHub() as running:
        point_at(running.url, tmp_path / "cache", monkeypatch)
        yield running
