"""Uses of transformers: configurations, classes, whole models, and the names of tensors.

A configuration of a few bytes can ask for any number of experts. The modules of a model are counted while transformers
makes them, and compared with the stored tensors before memory is allocated.

transformers renames and converts some checkpoints' tensors while it loads a model. The same rules, which are internal
to transformers, are applied here to one tensor at a time, so that only the tensors that are needed are read.
"""

from __future__ import annotations

import importlib
import logging
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import TensorEntry, Tensors
from engine.checkpoints.converted_tensors import Conversion, ConvertedTensors
from engine.checkpoints.json_files import FIELDS, NUMBER, OBJECT, TEXT, FieldType, plain_file, read_object, value_text
from engine.checkpoints.library_imports import IMPORT_LOCK
from engine.checkpoints.tensor_reader import Checkpoint
from engine.values.display_text import size
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig

READ = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".safetensors", ".bin")
"""Endings of the files that transformers may open."""

TOKENIZER_FIELDS: Mapping[str, FieldType] = {
    **dict.fromkeys(("tokenizer_class", "backend", "padding_side", "truncation_side"), TEXT),
    "model_max_length": NUMBER,
    "added_tokens_decoder": OBJECT,
}
"""The types of the fields of ``tokenizer_config.json``."""

TIMES, FURTHER_BYTES = 16, 2**29
"""A model may take so many times the stored bytes, which may be packed, and so many more, which may not be stored."""

MODULES, MODULES_FOR_A_TENSOR = 5000, 20
"""Modules that a model may have, and how many more for each stored tensor."""

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
    return said.partition("\n")[0] or type(error).__name__


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
    with IMPORT_LOCK:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    file = directory / "config.json"
    settings = read_object(file, FIELDS)
    model_type = settings.get("model_type") or ""
    if model_type not in CONFIG_MAPPING:
        if "auto_map" in settings:
            raise EngineError(CODE_NEEDED)
        if not model_type:
            raise EngineError(f"{file} has no model_type; write the type's name in transformers there")
        raise EngineError(
            f"{file}: model_type is {value_text(model_type)}, which transformers does not know; upgrade it"
        )
    if model_type == "mistral" and "layer_types" in settings:  # as transformers' AutoConfig does
        model_type = "ministral"
    names_of_code = ("auto_map", "configuration_files")  # and of other files to read instead
    known = {name: value for name, value in settings.items() if name not in names_of_code}
    try:
        with IMPORT_LOCK:
            kind = CONFIG_MAPPING[model_type]
        return kind.from_dict(known, name_or_path=str(directory))
    except Exception as error:  # whatever a configuration's own code raises
        said = " ".join(str(error).split())[:300]  # which may contain the whole configuration
        raise EngineError(f"{file} is refused by transformers: {said}; correct it there") from error


def tokenizer_options(directory: Path, trust_remote_code: bool) -> dict[str, Any]:
    """Return the options for loading a tokenizer, with a configuration that transformers need not read itself.

    Raises `EngineError` when a file that it may read is not a regular file, or has a wrong field.
    """
    if trust_remote_code:
        return {}
    import transformers

    _check_plain(directory)
    file = directory / "tokenizer_config.json"
    if file.exists():
        read_object(file, TOKENIZER_FIELDS)
    try:
        return {"config": library_config(directory)}
    except EngineError:  # most tokenizers name their own class
        return {"config": transformers.PreTrainedConfig()}


def _check_plain(directory: Path) -> None:
    for file in (*directory.iterdir(), *directory.glob("additional_chat_templates/*")):
        if file.suffix in READ:
            plain_file(file)


@contextmanager
def bound_size(entries: Mapping[str, TensorEntry]) -> Iterator[None]:
    """Keep this thread from building a model far larger than the stored tensors.

    Modules, and tensors on PyTorch's meta device, are counted as they are registered, before memory is allocated.
    Raises `EngineError` that names what the configuration asks for and what is stored.
    """
    from torch.nn.modules import module as hooks

    thread = threading.get_ident()
    stored = sum([entry.stored_bytes for entry in entries.values()])
    most_bytes = TIMES * stored + FURTHER_BYTES
    most_modules = MODULES + MODULES_FOR_A_TENSOR * len(entries)
    counts: Counter[str] = Counter()

    def refuse(what: str, held: str) -> EngineError:
        return EngineError(
            f"its config.json asks for {what}, but its files hold {held}; download or save the model again"
        )

    def count_module(parent: nn.Module, name: str, module: Any) -> None:
        counts["modules"] += threading.get_ident() == thread
        if counts["modules"] > most_modules:
            raise refuse(f"more than {most_modules} modules", f"{len(entries)} tensors")

    def count_tensor(parent: nn.Module, name: str, tensor: Any) -> None:
        if tensor is None or not tensor.is_meta or threading.get_ident() != thread:
            return
        counts["bytes"] += tensor.nbytes
        if counts["bytes"] > most_bytes:
            raise refuse(f"a model of more than {size(most_bytes)}", size(stored))

    with (
        hooks.register_module_module_registration_hook(count_module),
        hooks.register_module_parameter_registration_hook(count_tensor),
        hooks.register_module_buffer_registration_hook(count_tensor),
    ):
        yield


def model_class(config: Any, entries: Mapping[str, TensorEntry]) -> Any:
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
        whole = empty_model(named, config, entries)
        if type(getattr(whole, whole.base_model_prefix, None)) in bare:
            return transformers.AutoModel
    return named


def empty_model(kind: Any, config: Any, entries: Mapping[str, TensorEntry]) -> Any:
    """Build a model on the meta device, within `bound_size`. Raises whatever the model's own code raises."""
    import torch

    config = deepcopy(config)  # models write to it
    with bound_size(entries), torch.device("meta"):
        return kind.from_config(config) if hasattr(kind, "from_config") else kind(config)


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
    config = library_config(directory)
    try:
        return settings_of_config(config)
    except Exception as error:  # whatever a configuration's own code raises
        raise EngineError(f"{directory / 'config.json'} is not a configuration that transformers knows") from error


def settings_of_config(config: PretrainedConfig) -> dict[str, Any]:
    """Convert a configuration to a dictionary, in which the settings of a text model inside it come first."""
    whole: dict[str, Any] = config.to_dict()
    text = config.get_text_config()
    is_apart = text is config or getattr(config, "is_encoder_decoder", False)  # its two sides differ
    return whole if is_apart else {**whole, **text.to_dict()}


def load_pretrained(directory: Path, dtype: str, **options: Any) -> Any:
    """Load a folder's model into main memory, or as ``device_map`` says; parameters that the checkpoint lacks are NaN.

    The dtype ``auto`` keeps the stored one; ``options`` go to ``from_pretrained``. Raises `EngineError` when a file is
    not a regular file, or the configuration cannot be read or asks for too large a model, and whatever the model's own
    loading code raises.
    """
    silence_transformers()
    import torch
    import transformers

    bounds: AbstractContextManager[None] = nullcontext()
    chosen, checked = transformers.AutoModel, options
    if "gguf_file" not in options and not options.get("trust_remote_code"):  # those have their own configurations
        _check_plain(directory)
        config, entries = library_config(directory), Checkpoint(directory).entries
        chosen, checked = model_class(config, entries), {**options, "config": config}
        bounds = bound_size(entries)
    with bounds:
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
        return _convert_names(stored, empty_model(model_class(config, stored.entries), config, stored.entries))
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
