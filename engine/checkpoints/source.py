"""What a model is opened from, and how it is found from what a person typed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from engine.architectures.outline import Anatomy
from engine.architectures.tensors import Tensors
from engine.checkpoints.folder import FolderSource
from engine.checkpoints.locate import locate
from engine.checkpoints.names import meant_instead, unwrapped
from engine.checkpoints.weight_files import adapter_file
from engine.values.errors import EngineError, Superseded
from engine.values.memory import SentenceNeed
from engine.values.options import EngineOptions
from engine.values.outline import Parameter
from engine.values.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor


class Source(Protocol):
    """A model that is taken apart into heads, and that may read sentences."""

    @property
    def tensors(self) -> Tensors:
        """Its tensors by name."""

    @property
    def anatomy(self) -> Anatomy:
        """Where among them each layer's attention is."""

    @property
    def identity(self) -> str | None:
        """What changes when the weights may have; None where nothing can tell, so that nothing is kept on disk."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold its weights; none where they are in memory."""

    def sentence_need(self, dtype: str) -> SentenceNeed | None:
        """Estimate what reading a sentence takes; None where the model is in memory already, or cannot be run."""

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List its tensors, and the names that the model ties to one of them.

        Parameters
        ----------
        with_ties : without, what is tied is shown only where that is known at once.
        """

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of a listed tensor, at most `engine.architectures.tensors.PART` at a time.

        Raises
        ------
        EngineError : when it cannot be read.
        """

    def settings(self) -> Mapping[str, Any]:
        """Give its configuration with the defaults of its type filled in; empty where it has none."""


BASE = "base"
"""What stands for the model that an adapter changes, where a second one is asked for."""

LONGEST = 100
"""Characters of a name that is refused which are said again."""


def find_source(name: str, options: EngineOptions, report: Callable[[Progress], None]) -> Source:
    """Find a model, downloading it when it is neither here nor in the cache.

    Raises
    ------
    EngineError : when there is no such model, or it cannot be taken apart into heads.
    """
    name = unwrapped(name)
    name = meant_instead(name, is_described=options.layout is not None) or name
    place = _place(name)
    if options.layout is not None:
        from engine.checkpoints.layout import LayoutSource

        if not place.exists():
            raise EngineError(f"there is no {place}; with --layout give a weight file, or a folder of them")
        return LayoutSource(name, place, options.layout)
    from engine.checkpoints.gguf import GgufSource, gguf_file

    found_file = gguf_file(place)
    if found_file is not None:
        return GgufSource(name, found_file)
    location = locate(name, options.revision, report)
    if adapter_file(location.directory) is None:
        return FolderSource(location, options.trust_remote_code)
    from engine.checkpoints.adapter import AdapterSource, read_settings

    base = options.base or read_settings(location.directory).get("base_model_name_or_path")
    if not base:
        raise EngineError(f"{name} is an adapter that does not say of which model; name it with --base")
    try:
        found = locate(str(base), None, report)
    except Superseded:
        raise
    except EngineError as error:
        raise EngineError(f"{name} is an adapter of {base}: {error}; or give another with --base") from error
    return AdapterSource(location, FolderSource(found, options.trust_remote_code))


def _place(name: str) -> Path:
    """Give the path that a model's name may be, there or not; refuse one that cannot be looked at."""
    begin = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
    try:
        place = Path(name).expanduser()
        place.exists()
    except OSError as error:
        raise EngineError(f"{begin} cannot be read: {error.strerror}; check the path") from error
    except RuntimeError as error:
        raise EngineError(f"{begin} begins with the home folder of nobody here; check the path") from error
    return place


def find_other(name: str, source: Source, options: EngineOptions, report: Callable[[Progress], None]) -> Source:
    """Find the second model of two; ``base``, unless something here is called so, is the one that an adapter changes.

    Raises
    ------
    EngineError : as in `find_source`, and when the base is asked for of what is no adapter.
    """
    if options.other == BASE and not Path(BASE).exists():
        if (base := getattr(source, "base", None)) is not None:
            return cast("Source", base)
        raise EngineError(f"{name} is no adapter, so that it has no base; name the other model by its id or folder")
    return find_source(options.other or name, replace(options, revision=options.other_revision), report)
