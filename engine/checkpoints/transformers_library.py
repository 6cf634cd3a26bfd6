"""Uses of transformers: configurations, classes, whole models, and the names of tensors.

transformers renames and converts some checkpoints' tensors while it loads a model. The same rules, which are internal
to transformers, are applied here to one tensor at a time, so that only the tensors that are needed are read.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import TensorEntry, Tensors
from engine.checkpoints.converted_tensors import Conversion, ConvertedTensors
from engine.checkpoints.library_imports import IMPORT_LOCK
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig

CODE_NEEDED = "it needs its own code, which runs only if you allow it: read it, then give --trust-remote-code"


def first_line(error: BaseException) -> str:
    """Put an error into one line, in our own words where the library's do not say what to do."""
    said = str(error).strip()
    if isinstance(error, ValueError) and "trust_remote_code" in said:
        return CODE_NEEDED
    if "ignore_mismatched_sizes" in said:
        return "its tensors do not have the shapes that config.json gives"
    if isinstance(error, KeyError):
        return f"there is no {said}"
    return said.partition("\n")[0].rstrip(":") or type(error).__name__


_before: list[tuple[int, bool, int]] = []
"""What `silence_transformers` changed: transformers' verbosity and progress bars, and accelerate's level."""


def silence_transformers() -> None:
    """Keep transformers from writing warnings and progress bars over the screen."""
    with IMPORT_LOCK:
        import transformers

        if not _before:
            is_shown = transformers.logging.is_progress_bar_enabled()
            _before.append((transformers.logging.get_verbosity(), is_shown, logging.getLogger("accelerate").level))
    transformers.logging.set_verbosity(logging.CRITICAL)  # errors are raised anyway
    transformers.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(logging.ERROR)


@contextmanager
def restoring_transformers() -> Iterator[None]:
    """Undo `silence_transformers` at the end: a notebook loads other models with transformers."""
    try:
        yield
    finally:
        with suppress(IndexError):  # nothing to undo, or another thread has
            verbosity, is_shown, level = _before.pop()
            import transformers

            transformers.logging.set_verbosity(verbosity)
            if is_shown:
                transformers.logging.enable_progress_bar()
            logging.getLogger("accelerate").setLevel(level)


def library_config(directory: Path) -> Any:
    """Make transformers' configuration of a folder's model, without running any code of the folder.

    Raises `EngineError` when it cannot be read, or transformers does not know its type or refuses its settings.
    """
    silence_transformers()
    try:
        with IMPORT_LOCK:
            from transformers import AutoConfig

            return AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a configuration's own code raises
        if first_line(error) == CODE_NEEDED:
            raise EngineError(CODE_NEEDED) from error
        said = " ".join(str(error).split())[:300]  # which may contain the whole configuration
        file = directory / "config.json"
        raise EngineError(f"{file} is refused by transformers: {said}; correct it there") from error


def model_class(config: Any) -> Any:
    """Choose the class to load: the type's bare model if it is part of the class that the checkpoint names, else that.

    The bare model of a type with two sides, for instance, is no part of a decoder that was saved without its encoder.
    """
    import transformers

    found = transformers.AutoModel._model_mapping.get(type(config), ())
    bare = found if isinstance(found, tuple) else (found,)
    named = class_of_config(config)
    if named is None or named in bare:
        return named or transformers.AutoModel
    if bare:
        whole = empty_model(named, config)
        if type(getattr(whole, whole.base_model_prefix, None)) in bare:
            return transformers.AutoModel
    return named


def empty_model(kind: Any, config: Any) -> Any:
    """Build a model on the meta device. Raises whatever the model's own code raises."""
    import torch

    config = deepcopy(config)  # models write to it
    with torch.device("meta"):
        return kind.from_config(config, trust_remote_code=False) if hasattr(kind, "from_config") else kind(config)


def class_of_config(config: Any) -> Any:
    """Find the class that a configuration names, if there is one."""
    return next(filter(None, (class_named(name, config) for name in config.architectures or ())), None)


def class_named(name: str, config: Any) -> Any:
    """Find a model class by name, exported by transformers or not, that takes such a configuration."""
    import transformers

    try:
        own = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        own = None
    for module in (transformers, own):
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found if isinstance(config, found.config_class or ()) else None
    return None


def complete_config(directory: Path) -> dict[str, Any]:
    """Read a configuration with the defaults of its type; the settings of a text model inside it come first.

    Raises `EngineError` when transformers does not know the type.
    """
    return settings_of_config(library_config(directory))


def settings_of_config(config: PretrainedConfig) -> dict[str, Any]:
    """Convert a configuration to a dictionary, in which the settings of a text model inside it come first."""
    whole: dict[str, Any] = config.to_dict()
    text = config.get_text_config()
    is_apart = text is config or getattr(config, "is_encoder_decoder", False)  # its two sides differ
    return whole if is_apart else {**whole, **text.to_dict()}


def load_pretrained(directory: Path, dtype: str, **options: Any) -> Any:
    """Load a folder's model into main memory, or as ``device_map`` says; parameters that the checkpoint lacks are NaN.

    The dtype ``auto`` keeps the stored one; ``options`` go to ``from_pretrained``. Raises `EngineError` when the
    configuration cannot be read, and whatever the model's own loading code raises.
    """
    silence_transformers()
    import torch
    import transformers

    chosen, checked = transformers.AutoModel, options
    if "gguf_file" not in options and not options.get("trust_remote_code"):  # those have their own configurations
        config = library_config(directory)
        chosen, checked = model_class(config), {**options, "config": config}
    model, loading = chosen.from_pretrained(
        directory,
        attn_implementation="eager",
        dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        local_files_only=True,
        output_loading_info=True,
        **checked,
    )
    set_missing_to_nan(model, loading["missing_keys"])
    return model


def set_missing_to_nan(model: Any, lacking: Iterable[str]) -> None:
    """Set parameters that a checkpoint lacks, for which transformers draws random numbers, to NaN.

    Whatever depends on such a parameter is then NaN, and refused with the parameter's name (`broken_parameter`,
    `RefusedChoices`); whatever does not, as maps do not depend on a pooler, is unchanged. ``lacking`` may name buffers,
    which start with fixed numbers and stay. Raises ``ValueError`` for a parameter of whole numbers, which cannot be
    NaN.
    """
    import torch

    computed = list(getattr(model, "_keys_to_ignore_on_load_missing", None) or ())  # such as Marian's positions
    for name in sorted(lacking):
        if any(re.search(pattern, f"{model.base_model_prefix}.{name}") for pattern in computed):
            continue
        owner, _, own = name.rpartition(".")
        module = model.get_submodule(owner)
        parameter = module._parameters.get(own)
        if parameter is None:
            continue
        if not parameter.is_floating_point():
            raise ValueError(f"the checkpoint lacks {name}")
        module.lacking = getattr(module, "lacking", frozenset()) | {own}  # our own attribute
        if not parameter.is_meta:
            torch.nn.init.constant_(parameter, torch.nan)


def rename_tensors(stored: Tensors, directory: Path) -> Tensors:
    """Name a checkpoint's tensors as the loaded model does; `EngineError` when transformers cannot build the model."""
    try:
        config = library_config(directory)
        return _convert_names(stored, empty_model(model_class(config), config))
    except Exception as error:  # whatever a model's own code raises
        raise EngineError(f"transformers cannot build {directory}: {first_line(error)}") from error


def _convert_names(stored: Tensors, model: Any) -> Tensors:
    """Find which stored tensors become which of the model's, as transformers' loader does."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    mapping = get_model_conversion_mapping(model)
    renamings = [each for each in mapping if isinstance(each, WeightRenaming)]
    converters = [each for each in mapping if isinstance(each, WeightConverter)]
    by_pattern = {pattern: converter for converter in converters for pattern in converter.source_patterns}
    own: dict[str, Tensor] = model.state_dict()
    sources: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for name in sorted(stored.entries):
        target, pattern = rename_source_key(name, renamings, converters, model.base_model_prefix, own)
        if target not in own and name in own:
            target, pattern = name, None
        if target in own:
            sources[target].append((name, pattern))
    names: dict[str, str] = {}
    conversions: dict[str, Conversion] = {}
    for first, several in sources.items():
        name, pattern = several[0]
        if pattern is None:
            names[first] = name
            continue
        converter = by_pattern[pattern]
        for target_pattern in converter.target_patterns:
            target = first.replace(converter.target_patterns[0], target_pattern)
            if target in own:
                entry = TensorEntry(tuple(own[target].shape), stored.entries[name].dtype)
                make = partial(_convert, stored, model, converter, several, first, target)
                conversions[target] = Conversion(entry, make)
    return ConvertedTensors(stored, conversions, names)


def _convert(
    stored: Tensors, model: Any, converter: Any, sources: Sequence[tuple[str, str | None]], first: str, target: str
) -> Tensor:
    """Make one of the model's tensors by transformers' own conversion, which is named after the ``first`` it makes."""
    converter = deepcopy(converter)
    for name, pattern in sources:
        converter.add_tensor(first, name, pattern or name, stored.read(name))
    found = converter.convert(first, model=model, config=model.config)[target]
    tensor: Tensor = found[0] if isinstance(found, list) else found
    if tensor.shape != model.state_dict()[target].shape:
        raise EngineError(f"{target} is converted to {list(tensor.shape)}; load the model whole")
    return tensor
