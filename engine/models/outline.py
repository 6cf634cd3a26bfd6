"""From a configuration and a list of tensor names to the outline of a model's attention, without reading a weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.models.checkpoint import TensorEntry
from engine.models.configuration import context, head_count, head_widths, unscaled_length
from engine.models.counts import count_heads
from engine.models.marking import marks_of
from engine.models.places import Places, place_modules
from engine.models.projections import sibling
from engine.models.proven import PROVEN_TYPES
from engine.models.rotary_types import unturned_for_certain
from engine.models.rules import (
    REFUSED_TENSORS,
    TYPES_WITHOUT_ONE_MATRIX,
    Layout,
    Rule,
)
from engine.models.stored_shapes import biases_of, named_tensor, shapes_of
from engine.models.vocabulary import has_known_norms
from engine.values.errors import EngineError
from engine.values.heads import STACKS, Head
from engine.values.model import LayerOutline, ModelOutline

PAGE_SETTINGS = frozenset({"max_2d_position_embeddings", "bbox_scale"})
"""Settings of models that read tokens with their boxes on a page."""


@dataclass(frozen=True, slots=True)
class LatentNames:
    """The tensors of a projection's first step: its weight, its norm's gain, and its bias where it has one."""

    down: str
    norm: str
    bias: str | None


@dataclass(frozen=True, slots=True)
class AttentionModule:
    """One attention module of a checkpoint: its layer, the rule that cuts it, and its tensors' names by matrix.

    Attributes
    ----------
    latents : the first step of projections that take two.
    output_first : the first step of an output projection that takes two.
    key_value_module : the module that keys and values are of; another one's where layers share them.
    is_gated : whether a head's query is followed by an output gate.
    change_of : the layer whose change by an adapter this is, or None where it is a layer itself.
    """

    outline: LayerOutline
    rule: Rule
    weights: Mapping[str, str]
    biases: Mapping[str, str]
    latents: Mapping[str, LatentNames]
    output_first: str | None
    key_value_module: str
    is_gated: bool
    change_of: AttentionModule | None = None


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A model's outline together with where each layer's tensors are."""

    outline: ModelOutline
    modules: Mapping[Head, AttentionModule]


def _attention(
    module: str,
    rule: Rule,
    lender: str | None,
    entries: Mapping[str, TensorEntry],
    config: Mapping[str, Any],
    place: Head,
) -> AttentionModule:
    """Describe one attention module, whose keys and values may be another one's.

    Raises
    ------
    EngineError : when its shapes do not fit each other or the number of heads.
    """
    owners = {"Q": module, "K": lender or module, "V": lender or module, "O": module}
    shapes, weights = shapes_of(owners, rule, entries, config)
    counts = count_heads(module, rule, shapes, head_count(config, place, module, rule.head_ratio))
    widths = head_widths(config, place)
    if widths and rule.layout is not Layout.LATENT and not widths & {counts.head_dim, counts.value_head_dim}:
        raise EngineError(
            f"{module}: {counts.heads} heads would be {counts.head_dim} wide, but config.json has heads of "
            f"{' or '.join(map(str, sorted(widths)))}; attn-tui does not know this form"
        )
    latents = {}
    for matrix, latent in rule.latents.items():
        down = sibling(owners[matrix], latent.down)
        bias = f"{down}.bias" if f"{down}.bias" in entries else None
        latents[matrix] = LatentNames(f"{down}.weight", f"{sibling(owners[matrix], latent.norm)}.weight", bias)
    biases = biases_of(owners, rule, entries, shapes, counts)
    outline = LayerOutline(
        stack=place.stack,
        layer=place.layer,
        heads=counts.heads,
        key_value_heads=counts.key_value_heads,
        d_model=counts.d_model,
        d_source=counts.d_source,
        d_values=counts.d_values,
        d_output=counts.d_output,
        head_dim=counts.head_dim,
        value_head_dim=counts.value_head_dim,
        module=module,
        marks=marks_of(
            module,
            entries,
            config,
            is_cross=place.stack == "cross",
            is_lent=lender is not None,
            is_gated=counts.is_gated,
            biased=biases,
        ),
    )
    return AttentionModule(
        outline=outline,
        rule=rule,
        weights=weights,
        biases=biases,
        latents=latents,
        output_first=named_tensor(entries, module, rule.output_first) if rule.output_first else None,
        key_value_module=owners["K"],
        is_gated=counts.is_gated,
    )


def read_anatomy(
    name: str, where: str, config: Mapping[str, Any], entries: Mapping[str, TensorEntry], notes: tuple[str, ...] = ()
) -> Anatomy:
    """Find every attention layer among a model's tensors.

    Parameters
    ----------
    name, where : what the person typed, and where it was found.
    config : as ``config.json`` has it.
    entries : the tensors by name.
    notes : what the person should know besides.

    Raises
    ------
    EngineError : when the model has no attention that the rules can cut into heads, naming its type.
    """
    model_type = config.get("model_type") or "unknown"
    modules: dict[Head, AttentionModule] = {}
    if model_type in TYPES_WITHOUT_ONE_MATRIX:
        raise EngineError(f"models of type '{model_type}' have {TYPES_WITHOUT_ONE_MATRIX[model_type]}")
    if any(".lora_A." in tensor for tensor in entries):
        raise EngineError(
            f"{name} keeps adapters beside its weights; merge them first: model = model.merge_and_unload()"
        )
    places = place_modules(entries, model_type, config)
    for place, (module, rule) in places.modules.items():
        modules[place] = _attention(module, rule, places.lenders.get(place), entries, config, place)
    if not modules:
        raise EngineError(_why_none(model_type, entries))
    notes = (*notes, *_notes(model_type, places, config))
    anatomy = anatomy_of(name, where, model_type, modules, entries, context(config, model_type), notes)
    unturned, known = unturned_for_certain(model_type, config), has_known_norms(anatomy.outline.model_type)
    return replace(anatomy, outline=replace(anatomy.outline, unturned=unturned, has_known_norms=known))


def anatomy_of(
    name: str,
    where: str,
    model_type: str,
    modules: Mapping[Head, AttentionModule],
    entries: Mapping[str, TensorEntry],
    longest: int | None,
    notes: tuple[str, ...],
    counted: Mapping[str, TensorEntry] | None = None,
) -> Anatomy:
    """Put attention modules in reading order, and say of the whole model what there is to say.

    ``counted`` are the tensors that make up its size, where they are not all ``entries``.
    """
    counted = entries if counted is None else counted
    ordered = dict(sorted(modules.items(), key=lambda item: (STACKS.index(item[0].stack), item[0].layer)))
    first = next(iter(ordered.values()))
    outline = ModelOutline(
        name,
        where,
        model_type,
        tuple(module.outline for module in ordered.values()),
        entries[first.weights["Q"]].dtype,
        sum(entry.parameters for entry in counted.values()),
        sum(entry.stored_bytes for entry in counted.values()),
        longest,
        notes,
    )
    return Anatomy(outline, ordered)


def _notes(model_type: str, places: Places, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what was left out, where the heads were found by name alone, and from which length on positions change."""
    notes = []
    if model_type not in PROVEN_TYPES:
        notes.append(f"heads of type '{model_type}' were found by their names; no test proves this type yet")
    if places.left_out:
        notes.append(f"only the heads that read text are here; left out: {', '.join(places.left_out)}")
    if places.unknown:
        notes.append(f"attention of a form that attn-tui does not know is left out: {', '.join(places.unknown)}")
    if not PAGE_SETTINGS.isdisjoint(config):
        notes.append("tokens have no place on a page here: the boxes that the model reads with them are all zero")
    if longest := unscaled_length(config, config.get("rope_parameters") or config.get("rope_scaling")):
        notes.append(f"sentences of more than {longest} tokens scale rotary positions; QK at a distance is of shorter")
    if config.get("is_encoder_decoder") and config.get("decoder_start_token_id") is None:
        notes.append("no decoder_start_token_id is set: the decoder reads the sentence without a start token")
    return tuple(notes)


def _why_none(model_type: str, entries: Mapping[str, TensorEntry]) -> str:
    """Say why no attention was found."""
    for name, kind in REFUSED_TENSORS.items():
        if any(f"{name}." in entry for entry in entries):
            return f"models of type '{model_type}' use {kind}, which attn-tui cannot cut into heads yet"
    return (
        f"models of type '{model_type}' have no softmax attention that attn-tui knows: "
        "no query, key, value and output projections among their weights"
    )
