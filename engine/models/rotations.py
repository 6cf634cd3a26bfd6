"""How a type rotates queries and keys by their positions, with the frequencies that transformers computes."""

from __future__ import annotations

import copy
import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from engine.architectures.configuration import unscaled_length
from engine.architectures.rules import PARTS, ROTARY_TYPES, RotaryType, why_not_rotated
from engine.architectures.tensors import Tensors
from engine.checkpoints.library_imports import IMPORT_LOCK
from engine.checkpoints.transformers_library import silence_transformers
from engine.mathematics.scores import Rotation
from engine.values.errors import EngineError
from engine.values.outline import LayerOutline, ModelOutline


def rotation_of(outline: ModelOutline, layer: LayerOutline, settings: Mapping[str, Any], tensors: Tensors) -> Rotation:
    """Find how a layer's keys are rotated; without frequencies where the layer rotates none.

    Norms of queries and keys are left out, as they are in QK; so is a factor on a query for its position, which all its
    scores share.

    Parameters
    ----------
    settings : the model's, or its text model's.
    tensors : of the checkpoint; some types learn factors of their frequencies.

    Raises
    ------
    EngineError : when the type has no known rotary positions, or they depend on the sentence.
    """
    config = _configuration(outline, layer, settings)
    rotary = ROTARY_TYPES.get(config.model_type or settings["model_type"])
    if rotary is not None and rotary.chosen is not None and not rotary.refused:
        setting, value = rotary.chosen
        if getattr(config, setting, "") != value:
            rotary = None
    if rotary is None or rotary.refused:
        raise EngineError(why_not_rotated(outline.model_type, rotary))
    if not _is_rotated(config, rotary, layer):
        return Rotation(torch.empty(0), False)
    frequencies, longest = _frequencies(outline, config, rotary, layer)
    if rotary.learned:
        (name,) = (each for each in tensors.entries if each.endswith(rotary.learned))
        frequencies = frequencies.double() * tensors.read(name).double().exp()
    if 2 * len(frequencies) > layer.head_dim:
        raise EngineError(f"{outline.name} turns {2 * len(frequencies)} dimensions of heads of {layer.head_dim}")
    start = layer.head_dim - 2 * len(frequencies) if rotary.is_latent else 0
    is_interleaved = rotary.is_interleaved or is_reordered(config)
    return Rotation(-frequencies if rotary.is_backwards else frequencies, is_interleaved, start, longest)


def is_reordered(config: Any) -> bool:
    """Say whether a model reorders the dimensions of queries and keys before it rotates them."""
    rotary = ROTARY_TYPES.get(config.model_type)
    return rotary is not None and rotary.is_reordered and bool(getattr(config, "rope_interleave", True))


def _configuration(outline: ModelOutline, layer: LayerOutline, settings: Mapping[str, Any]) -> Any:
    """Make the configuration of a model, or of the part of it that has a layer.

    For a text model inside a larger one, ``settings`` are the text model's.
    """
    silence_transformers()
    own = {name: value for name, value in settings.items() if name not in ("text_config", "text_encoder")}
    inner = settings.get("text_config")
    if isinstance(inner, Mapping) and inner.get("model_type") == own["model_type"]:
        own = dict(inner)  # a setting of the same name may be another part's
    try:
        with IMPORT_LOCK:
            import transformers

            config: Any = transformers.AutoConfig.for_model(**own)
    except Exception as error:  # whatever a configuration's own code raises
        raise EngineError(f"the rotary frequencies of {outline.name} are not available ({error})") from error
    part, _ = PARTS.get((config.model_type, layer.stack), ("", ""))
    if part:
        return getattr(config, part)
    if not config.is_encoder_decoder:
        return config
    side = "encoder" if layer.stack == "encoder" else "decoder"
    parts = (getattr(config, name, None) for name in (side, f"{side}_config"))
    config = next((each for each in parts if hasattr(each, "model_type")), config)
    return getattr(config, "text_config", config)


def _is_rotated(config: Any, rotary: RotaryType, layer: LayerOutline) -> bool:
    if layer.stack == "cross" or not rotary.is_rotated:
        return False
    if rotary.is_sliding_alone:
        return config.sliding_window is None or config.layer_types[layer.layer] == "sliding_attention"
    kinds, given = getattr(config, "layer_types", None), getattr(config, "rope_parameters", None) or {}
    if kinds and given.get(kinds[layer.layer], given) is None:
        return False
    flags = getattr(config, "no_rope_layers", None)  # 1 stands for a layer that rotates
    bases = getattr(config, "layer_rope_theta", None)
    return all(bool(each[layer.layer]) for each in (flags, bases) if each)


def _frequencies(
    outline: ModelOutline, config: Any, rotary: RotaryType, layer: LayerOutline
) -> tuple[Tensor, int | None]:
    """Compute a layer's frequencies, (pairs,) radians per token, and the longest sentence that has them."""
    width = layer.head_dim if rotary.width == "" else getattr(config, rotary.width or "", 0)
    if width:
        exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
        return torch.pow(10000.0, -exponents), None
    kinds = getattr(config, "layer_types", None)
    kind = kinds[layer.layer] if kinds else ""
    given = getattr(config, "rope_parameters", None) or {}
    given = given.get(kind) or given
    scaling = str(given.get("rope_type", "default"))
    longest = unscaled_length(vars(config), given)
    for_any_length = ("default", "linear", "llama3", "yarn", "proportional")
    if scaling not in for_any_length and longest is None:
        raise EngineError(
            f"{outline.name} scales its rotary positions by '{scaling}', which attn-tui does not know; "
            "there is no QK at a distance"
        )
    bases = getattr(config, "layer_rope_theta", None)
    if bases:
        config = copy.deepcopy(config)
        config.rope_parameters = {**given, "rope_theta": bases[layer.layer]}
    try:
        with IMPORT_LOCK:
            code = type(config).__module__.replace(".configuration_", ".modeling_")
            if importlib.util.find_spec(code) is None:  # some types run another type's
                import transformers

                model: Any = transformers.MODEL_MAPPING[type(config)]
                code = model.__module__
            module = importlib.import_module(code)
        _, own_name = PARTS.get((outline.model_type, layer.stack), ("", ""))
        made = [
            each(config) for name, each in vars(module).items()
            if name.endswith(own_name or "RotaryEmbedding")
            and not name.endswith(("VisionRotaryEmbedding", "AudioRotaryEmbedding"))
        ]  # fmt: skip
        of_kind = [getattr(each, f"{kind}_inv_freq", None) for each in made]
        first, *others = (each.inv_freq if own is None else own for each, own in zip(made, of_kind, strict=True))
    except Exception as error:  # whatever a type's own code raises
        raise EngineError(f"the rotary frequencies of {outline.name} are not available ({error})") from error
    if not all(torch.equal(first, each) for each in others):
        raise EngineError(f"{outline.name} has rotary positions of several kinds; there is no QK at a distance")
    frequencies: Tensor = first
    return frequencies, longest
