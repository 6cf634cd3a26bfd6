"""Proving the heads cut from a model's files against the model's own numbers: two identities, layer by layer.

x is what the projections read, out what the output projection wrote, A_h the attention probabilities.

(a)  Σ_h A_h (x W_V,hᵀ + b_V,h) W_O,hᵀ + b_O = out
(b)  softmax(scale · (x W_Qᵀ + b_Q)(x W_Kᵀ + b_K)ᵀ + mask) = A_h, with all positions at zero

A wrong slice of any projection breaks one of them. For models that do more than the plain formula, modifiers are tried
in turn, and the first with which the identity holds is named.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from engine.architectures.heads import LayerWeights
from engine.architectures.outline import AttentionModule
from engine.architectures.rules import sibling
from engine.architectures.tensors import all_finite
from engine.mathematics.scores import fit_scale
from engine.models.attention_capture import HALVES, Check
from engine.models.attention_maps import probabilities_of
from engine.models.devices import weights_loaded, widen
from engine.models.interventions import first_tensor
from engine.models.loaded_model import (
    ASKING_FOR_BOXES,
    LoadedModules,
    empty_boxes,
    vocabulary_size,
)
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import Finding, LayerProof

TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
"""How far rounding in a module's own arithmetic may move a number, relative to the largest, by dtype."""

ROUNDINGS = 4
"""How far a probability may be off, in rounding errors of the largest score."""

SUM_SLACK = {torch.bfloat16: 3e-2, torch.float16: 5e-3}
"""How far a row's sum may be from one by rounding alone; a thousandth in wider types."""

TELLING = 1e-12
"""Least probability that tells a score; smaller ones are mostly rounding."""

PARTS = {
    "Q": ("query", "query_bias", "gate", "gate_bias"), "K": ("key", "key_bias"),
    "V": ("value", "value_bias"), "O": ("output", "output_bias"),
}  # fmt: skip
"""Fields of `LayerWeights`, by projection."""

BEYOND = frozenset({
    "differential pairs", "residual convolution", "landmarks", "dynamic mask", "short convolution",
    "output scaled by a sink", "relative position terms", "hashed attention", "outputs beyond OV", "scores beyond QK",
    "terms beside the heads",
})  # fmt: skip
"""Marks of layers that the identities do not cover."""

VALUE_NORMS = ("v_norm", "v_layernorm", "value_norm", "value_layernorm", "kv_norm")
QUERY_NORMS = ("q_norm", "q_layernorm", "query_norm", "query_layernorm", "q_b_norm")
KEY_NORMS = ("k_norm", "k_layernorm", "key_norm", "key_layernorm", "kv_norm")
CONVOLUTIONS = {"K": ("k_sconv",), "V": ("v_sconv",)}
QUERY_KEY_NORM, ROTARY_KEY_NORM = ("qk_norm",), ("k_rope_only_layernorm",)
OUTPUT_NORMS = ("attn_sub_norm", "sub_norm", "inner_attn_ln", "o_norm")
GATES = ("gate_proj", "g_proj", "g")
"""Names in models of the modules that act on values, queries, keys and heads' outputs."""

LATENT_SCALES = {"Q": ("mla_scale_q_lora", "q_lora_scale"), "K": ("mla_scale_kv_lora", "kv_lora_scale")}
VALUE_SCALE, CLIP = "v_scale", "clip_qkv"
"""Names in attention modules of the factors on latents and on values, and of the bound at which they are clipped."""

Attempt = tuple[str, float, float]
"""The modifiers of a formula, its residual, and the largest number that rounding affects."""

ROW_LENGTH, DRAWN_TOKENS = 9, 50_000
"""Tokens of a random row, and the number of first ids that they are drawn from."""

POSITION_KEYS = {
    "xlnet": (".r", ".seg_embed"), "funnel": (".r_kernel", ".seg_embed"), "inkling_text": (".r_proj.weight",),
}  # fmt: skip
"""Endings of the parameters, by type, that make scores of relative positions and segments; at zero they add nothing."""

POSITION_TABLES = {"roformer": "embed_positions"}
"""The table of rotations, by type; its first row replaces all rows while positions are held at zero."""


@dataclass
class Observation:
    """One attention module's numbers for a batch of sentences.

    Attributes
    ----------
    module : the module, whose norms can be called.
    key_value_module : the module that makes keys and values: another layer's where layers share them.
    projections : the modules of its projections by matrix, and the norms of first steps as ``norm Q``.
    reads : by matrix, what its projection (the first step of two) read, (sentences, tokens, width); for O
        (sentences, tokens, heads · value_head_dim).
    written : what the output projection wrote, (sentences, tokens, d_output).
    probabilities : (sentences, heads, queries, keys), or None where the module does not return them.
    positions_are_held : whether all positions were zero, or the model has no rotations.
    loaded_as : the half precision of weights that were run in float32; None for others.
    """

    module: nn.Module
    key_value_module: nn.Module
    projections: dict[str, nn.Module] = field(default_factory=dict)
    reads: dict[str, Tensor] = field(default_factory=dict)
    written: Tensor | None = None
    probabilities: Tensor | None = None
    positions_are_held: bool = True
    loaded_as: torch.dtype | None = None


def observe(model: Any, modules: Mapping[Head, AttentionModule], device: str, check: Check) -> dict[Head, Observation]:
    """Run a model of transformers, with eager attention, on two rows of random tokens, at position zero where it can.

    Rotations are then equal and cancel in q · k, so that the scores follow from the weights alone. The tokens are the
    same each time, without padding. ``check`` is called before every attention module and may raise to stop. Raises
    `EngineError` when a module is not in the model, or the model does not run.
    """
    padding = getattr(model.config, "pad_token_id", None)
    tokens = [token for token in range(min(vocabulary_size(model), DRAWN_TOKENS)) if token != padding]
    places = torch.randint(len(tokens), (2, ROW_LENGTH), generator=torch.Generator().manual_seed(0))
    ids = torch.tensor(tokens)[places].to(device)
    model_type = str(getattr(model.config, "model_type", ""))
    loaded = LoadedModules(model)
    sources = [each.outline.d_source for head, each in modules.items() if head.stack == "cross"]
    inputs = inputs_at_position_zero(model, ids, sources[0] if sources else None)
    rotations = [module for module in loaded.named.values() if "Rotary" in type(module).__name__]
    holding = [each for each in rotations if "position_ids" in inspect.signature(each.forward).parameters]
    are_held = "position_ids" in inputs or model_type in POSITION_TABLES or holding == rotations
    seen: dict[Head, Observation] = {}
    with ExitStack() as stack, torch.inference_mode():
        stack.enter_context(_position_tables_at_zero(model, model_type))
        for rotation in holding:
            stack.enter_context(rotation.register_forward_pre_hook(_hold_positions, with_kwargs=True))
        for head, module in modules.items():
            own, shared = (loaded.named[loaded.path(module, matrix)] for matrix in "QK")
            seen[head] = Observation(own, shared, positions_are_held=are_held, loaded_as=half_precision(own))
            stack.enter_context(_ModuleWatch(seen[head], module, len(ids), check).watching(loaded))
        try:
            model(**inputs)
        except EngineError:
            raise
        except Exception as error:  # whatever a model's own code raises
            raise EngineError(f"the model does not run: {str(error).partition(chr(10))[0]}") from error
    return seen


def inputs_at_position_zero(model: Any, ids: Tensor, d_source: int | None = None) -> dict[str, Any]:
    """Give a model's inputs for ids (sentences, tokens): an explicit mask, no cache, all positions zero.

    ``d_source`` is the width of encoder states, made up for a decoder that attends to an encoder outside the model.
    """
    config, taken = model.config, inspect.signature(model.forward).parameters
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(model.device)

    if getattr(config, "model_type", "") in ASKING_FOR_BOXES:
        inputs["bbox"] = empty_boxes(ids)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
        inputs["decoder_input_ids"] = ids.flip(1)
        if channels := getattr(getattr(config, "decoder_config", None), "num_channels", 0):  # Dia
            inputs["decoder_input_ids"] = ids.flip(1)[..., None].expand(*ids.shape, channels)
    elif d_source is not None and "encoder_hidden_states" in taken:
        inputs["encoder_hidden_states"] = drawn(*ids.shape, d_source).to(model.dtype)
    shape = None if "input_ids" in taken else _shape_of_frames(config)
    if shape is not None and "input_features" in taken:
        del inputs["input_ids"], inputs["attention_mask"]
        inputs["input_features"] = drawn(len(ids), *shape)
    elif "input_ids" not in taken and "input_values" in taken:  # Moonshine reads the wave
        wave = drawn(len(ids), 4000)  # of which it makes about ten states
        del inputs["input_ids"]
        inputs |= {"input_values": wave, "attention_mask": torch.ones_like(wave, dtype=ids.dtype)}
    inputs |= {name: torch.zeros_like(ids) for name in ("position_ids", "decoder_position_ids") if name in taken}
    for name, value in (("use_cache", False), ("output_attentions", True)):
        if name in taken or any(each.kind is each.VAR_KEYWORD for each in taken.values()):
            inputs[name] = value
    return inputs


def _shape_of_frames(config: Any) -> tuple[int, int] | None:
    """Give the shape of the frames that an encoder of sound reads; None for an unknown one."""
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):  # Whisper
        return config.num_mel_bins, 2 * config.max_source_positions
    encoders: tuple[Any, Any] = getattr(config, "encoder_config", None), config
    for encoder in encoders:
        if hasattr(encoder, "subsampling_factor") and hasattr(encoder, "num_mel_bins"):  # Parakeet
            return 10 * encoder.subsampling_factor, encoder.num_mel_bins  # for ten states
    return None


def _hold_positions(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    call = inspect.signature(module.forward).bind(*args, **kwargs)
    positions = call.arguments.get("position_ids")
    if isinstance(positions, Tensor):
        call.arguments["position_ids"] = torch.zeros_like(positions)
    return call.args, call.kwargs


@contextmanager
def _position_tables_at_zero(model: Any, model_type: str) -> Iterator[None]:
    keys, table = POSITION_KEYS.get(model_type, ()), POSITION_TABLES.get(model_type)
    tables = [path for path, _ in model.named_parameters() if path.endswith(keys) or path.split(".")[-2:-1] == [table]]
    with weights_loaded(*(model.get_submodule(path.rpartition(".")[0]) for path in tables)):
        parameters = {path: model.get_parameter(path) for path in tables}
        values = {path: parameter.detach().clone() for path, parameter in parameters.items()}
        for path, value in values.items():
            same = torch.zeros_like(value) if path.endswith(keys) else value[:1].repeat(len(value), 1)
            parameters[path].data = same
        try:
            yield
        finally:
            for path, value in values.items():
                parameters[path].data = value


class _ModuleWatch:
    """Keeps what one attention module and its projections read and write, the first time that they run."""

    def __init__(self, seen: Observation, module: AttentionModule, sentences: int, check: Check) -> None:
        self._seen, self._module, self._check = seen, module, check
        self._sentences = sentences
        self._calls = 0

    @contextmanager
    def watching(self, loaded: LoadedModules) -> Iterator[None]:
        described, seen = self._module, self._seen
        uses: dict[str, str] = {}
        own = vars(seen.module).get("forward")
        with ExitStack() as stack:
            for matrix in "QKVO":
                name = described.rule.first_step(matrix)
                if (projection := loaded.projection(described, matrix)) is not None:
                    seen.projections[matrix] = projection
                    stack.enter_context(projection.register_forward_hook(partial(self._keep_call, matrix)))
                    if (norm := loaded.latent_norm(described, matrix)) is not None:
                        seen.projections[f"norm {matrix}"] = norm
                elif isinstance(getattr(seen.module, name, None), nn.Parameter):
                    uses[name] = matrix
                else:
                    raise EngineError(f"the loaded model has no module {sibling(described.outline.module, name)}")
            if uses:
                stack.enter_context(weights_loaded(seen.module))  # so that it computes with these parameter objects
                parameters = {id(getattr(seen.module, name)): matrix for name, matrix in uses.items()}
                stack.enter_context(_EinsumWatch(parameters, self._keep))
            seen.module.forward = partial(self._run, seen.module.forward)  # may be accelerate's
            try:
                yield
            finally:
                if own is None:
                    del seen.module.forward
                else:
                    seen.module.forward = own

    def _run(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._calls += 1
        self._check()
        seen = self._seen
        half = half_precision(seen.module)  # None if another watch has made it float32
        with nullcontext() if half is None else in_float32(seen.module):
            if half is not None:
                args, kwargs = _convert((args, kwargs), HALVES, torch.float32)
            result = forward(*args, **kwargs)
        if seen.probabilities is None and "Q" in seen.reads:
            heads, tokens = self._module.outline.heads, seen.reads["Q"].shape[-2]
            seen.probabilities = probabilities_of(seen.module, result, heads, tokens, self._sentences)
        return result if half is None else _convert(result, {torch.float32}, half)

    def _keep_call(self, matrix: str, projection: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        is_convolution = isinstance(projection, nn.Conv1d)
        self._keep(matrix, *(each.mT if is_convolution else each for each in (args[0], first_tensor(result))))

    def _keep(self, matrix: str, read: Tensor, written: Tensor) -> None:
        """Keep what a projection read; a module may call it for several parts of the sequence in turn."""
        seen = self._seen
        read, written = (
            each.transpose(0, 1) if each.ndim > 2 and each.shape[0] != self._sentences == each.shape[1] else each
            for each in (read.detach(), written.detach())
        )  # some models have the tokens first
        if matrix == "O":
            if seen.written is None:
                seen.reads["O"], seen.written = read, written
        elif matrix not in seen.reads:
            seen.reads[matrix] = read
        elif self._calls == 1 and seen.probabilities is None and seen.written is None:
            seen.reads[matrix] = torch.cat([seen.reads[matrix], read], -2)


class _EinsumWatch(TorchFunctionMode):
    """Watches products with parameters, by their ids, that belong to no module of their own."""

    def __init__(self, uses: Mapping[int, str], keep: Callable[[str, Tensor, Tensor], None]) -> None:
        super().__init__()
        self._uses, self._keep = uses, keep

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.einsum and len(args) == 3 and id(args[2]) in self._uses:
            self._keep(self._uses[id(args[2])], args[1].flatten(2), result.flatten(2))
        return result


@contextmanager
def in_float32(*modules: nn.Module) -> Iterator[None]:
    """Load the weights of modules and of all their parts as float32 where they are of half precision.

    The modules then compute without half precision's rounding. At the end the weights are restored bit by bit.
    """
    with weights_loaded(*modules):
        parts = [part for module in modules for each in (module.parameters(), module.buffers()) for part in each]
        halves = {id(part): (part, part.data) for part in parts if part.dtype in HALVES}
        try:
            with torch.inference_mode(False):
                for part, stored in halves.values():
                    part.data = stored.float()
            yield
        finally:
            for part, stored in halves.values():
                part.data = stored


def half_precision(module: nn.Module) -> torch.dtype | None:
    """Give a module's half precision; None in wider types."""
    return next((each.dtype for each in module.parameters() if each.dtype in HALVES), None)


def _convert(values: Any, of: Collection[torch.dtype], dtype: torch.dtype) -> Any:
    return tree_map(lambda each: each.to(dtype) if isinstance(each, Tensor) and each.dtype in of else each, values)


def prove(module: AttentionModule, weights: LayerWeights, seen: Observation) -> LayerProof:
    """Check both identities for one layer: its heads against what its module read and wrote."""
    if missing := _missing(seen):
        nothing = Finding(None, math.nan, missing)
        return LayerProof(module.outline.name, nothing, nothing)
    assert seen.probabilities is not None
    assert seen.written is not None
    with in_float32(seen.module, seen.key_value_module, *seen.projections.values()):
        case = Case(module, _round_as_loaded(module, weights, seen.loaded_as), seen, seen.probabilities, seen.written)
        scores = _first_that_holds(case, _try_scores(case), seen.probabilities)
        if scores.holds is False and not seen.positions_are_held:
            why = "the scores depend on more than queries and keys, such as the model's own positions"
            scores = Finding(None, scores.residual, why)
        return LayerProof(module.outline.name, _first_that_holds(case, _try_outputs(case), seen.written), scores)


def _missing(seen: Observation) -> str:
    if seen.written is None:
        return "it did not run on the sentence, or calls its projections in a way that attn-tui cannot hook"
    if not all_finite(seen.written):
        return "it computes NaN or infinite numbers, from a parameter that holds them or is missing"
    if seen.probabilities is None:
        return "it does not return its attention probabilities"
    if (seen.reads["Q"].shape[-2], seen.reads["V"].shape[-2]) != seen.probabilities.shape[2:]:
        return "its maps and its projections have different tokens"
    return ""


def _round_as_loaded(module: AttentionModule, weights: LayerWeights, dtype: torch.dtype | None) -> LayerWeights:
    """Round weights as loading them in half precision did; products of two steps stay."""
    if dtype is None:
        return weights
    in_two_steps = {*module.latents, *("O" if module.output_first else "")}
    names = [name for matrix, several in PARTS.items() if matrix not in in_two_steps for name in several]
    parts = {name: getattr(weights, name) for name in names}
    return replace(weights, **{name: part.to(dtype) for name, part in parts.items() if part is not None})


def _first_that_holds(case: Case, attempts: Iterator[Attempt], seen: Tensor) -> Finding:
    tolerance, loaded_as = TOLERANCES[seen.dtype], case.seen.loaded_as
    if loaded_as is not None and (case.module.latents or case.module.output_first):
        smallest = min(float(each.min()) for each in case.weights.epsilons.values())
        if smallest < torch.finfo(loaded_as).eps:  # both steps were rounded, but only their product is known
            tolerance = max(tolerance, TOLERANCES[loaded_as])
    best = math.inf
    for modifier, residual, size in attempts:
        if residual <= max(tolerance, ROUNDINGS * torch.finfo(seen.dtype).eps * size):
            return Finding(True, residual, modifier)
        best = min(best, residual)
    if any(type(each).__name__ == "Linear8bitLt" for each in case.seen.module.modules()):
        return Finding(None, best, "its projections round what they read to eight bits")
    marks = ", ".join(case.module.outline.marks)
    if beyond := BEYOND & set(case.module.outline.marks):
        return Finding(None, best, f"{', '.join(sorted(beyond))}: no identity covers it")
    return Finding(False, best, f"its output matches no known form ({marks or 'no marks'})")


@dataclass(frozen=True)
class Case:
    """One layer's heads, and what its module read and wrote."""

    module: AttentionModule
    weights: LayerWeights
    seen: Observation
    probabilities: Tensor
    written: Tensor

    def child(self, names: tuple[str, ...]) -> Any:
        """Find a module beside the projections by one of these names, or None."""
        is_of_keys = names in (KEY_NORMS, VALUE_NORMS)
        owner = self.seen.key_value_module if is_of_keys else self.seen.module
        children = dict(owner.named_children())
        return next((children[name] for name in names if name in children), None)

    @property
    def clip(self) -> float:
        """The bound to which the module clips queries, keys and values; infinite without one."""
        module: Any = self.seen.module
        clip = getattr(module, CLIP, getattr(getattr(module, "config", None), CLIP, None))
        return math.inf if clip is None else float(clip)

    def rows(self, matrix: str) -> tuple[Tensor, list[str]]:
        """Give queries, keys or values before norms, (sentences, heads, tokens, rows), and the modifiers applied."""
        name, names = {"Q": "query", "K": "key", "V": "value"}[matrix], list[str]()
        bias = getattr(self.weights, f"{name}_bias")
        rows = rows_by_head(self.seen.reads[matrix], getattr(self.weights, name), bias)
        if (size := self.latent_size(matrix)) is not None:
            own = rows.shape[-1] - (self.weights.shared_key_rows if matrix == "K" else 0)
            shared = rows[..., own:]
            if shared.shape[-1] and (norm := self.child(ROTARY_KEY_NORM)) is not None:
                shared = self.call(norm, shared)
            rows, names = torch.cat([rows[..., :own] * size, shared], -1), ["latent norm"]
        if self.clip < math.inf:
            rows, names = rows.clamp(-self.clip, self.clip) if matrix == "V" else rows, [*names, "clipping"]
        if (convolved := self.convolve(CONVOLUTIONS.get(matrix, ()), rows)) is not None:
            rows, names = convolved, [*names, "short convolution"]
        return rows, names

    def latent_size(self, matrix: str) -> Tensor | None:
        """Give the factor of a first step's norm on each token's latent, (sentences, 1, tokens, 1), or None."""
        latent = self.module.latents.get(matrix)
        if latent is None:
            return None
        down, norm = self.seen.projections[matrix], self.seen.projections[f"norm {matrix}"]
        gain: Any = norm.weight
        with torch.inference_mode():
            written = down(self.seen.reads[matrix])[..., : len(gain)]
            plain = written * gain
            normed: Tensor = norm(written)
        size: Tensor = (normed * plain).sum(-1, keepdim=True) / plain.square().sum(-1, keepdim=True)
        scales = [getattr(self.seen.module, name, None) for name in LATENT_SCALES["Q" if matrix == "Q" else "K"]]
        return widen((size * next((scale for scale in scales if scale is not None), 1.0))[:, None])

    def call(self, module: nn.Module, rows: Tensor) -> Tensor:
        """Call one of the model's own modules, in float32 at least."""
        with torch.inference_mode():
            dtype = torch.promote_types(self.written.dtype, torch.float32)
            result: Tensor = module(rows.to(dtype)).to(rows)
        return result

    def call_on_all_heads(self, module: nn.Module, rows: Tensor) -> Tensor:
        """Call a module on the rows of all heads of a token together; rows are (sentences, heads, tokens, rows)."""
        written = self.call(module, rows.transpose(1, 2).flatten(2))
        by_head: Tensor = written.unflatten(2, (rows.shape[1], -1)).transpose(1, 2)
        return by_head

    def convolve(self, names: tuple[str, ...], rows: Tensor) -> Tensor | None:
        """Call the module's convolution over tokens, if it has one that needs only the rows."""
        convolution = self.child(names)
        if convolution is None:
            return None
        given = list(inspect.signature(convolution.forward).parameters.values())[1:]
        if any(each.default is each.empty and each.kind is not each.VAR_KEYWORD for each in given):
            return None
        return self.call_on_all_heads(convolution, rows)


def rows_by_head(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Project (sentences, tokens, width) by head in the widest dtype: (sentences, heads, tokens, rows)."""
    rows = torch.einsum("btd,hrd->bhtr", widen(x), widen(weight.to(x.device)))
    return rows if bias is None else rows + bias[None, :, None].to(rows)


# (a) The outputs of a layer's heads add up to what its attention writes.


def _try_outputs(case: Case) -> Iterator[Attempt]:
    value, names = case.rows("V")
    yield from _try_writing(case, _mix(case, value), names)
    marks = case.module.outline.marks
    if "output scaled by a sink" in marks:
        yield from _try_writing(case, _mix(case, value) * _sink_scale(case), [*names, "output scaled by a sink"])
    if "differential pairs" in marks:
        yield from _try_writing(case, _mix_pairs(case, value), [*names, "differential pairs"])
    scale = getattr(case.seen.module, VALUE_SCALE, None)
    if isinstance(scale, float):
        yield from _try_writing(case, _mix(case, value * scale), [*names, "value scale"])
    if (norm := case.child(VALUE_NORMS)) is not None:
        yield from _try_writing(case, _mix(case, case.call(norm, value)), [*names, "value norm"])


def _mix(case: Case, value: Tensor) -> Tensor:
    """Mix values by the probabilities: (sentences, heads, queries, value_head_dim)."""
    return case.probabilities.to(value) @ value.repeat_interleave(case.weights.group, 1)


def _sink_scale(case: Case) -> Tensor:
    """Compute ``sigmoid(logsumexp(scores) − sink)``, (sentences, heads, queries, 1), as Granite with sinks does."""
    module: Any = case.seen.module
    query, key = case.rows("Q")[0], case.rows("K")[0].repeat_interleave(case.weights.group, 1)
    scores = (module.scaling * query @ key.mT).masked_fill(case.probabilities == 0, -torch.inf)
    sinks: Tensor = module.sinks.detach().to(scores).reshape(1, -1, 1, 1)
    scale: Tensor = (scores.logsumexp(-1, keepdim=True) - sinks).sigmoid()
    return scale


def _mix_pairs(case: Case, value: Tensor) -> Tensor:
    """Mix values by differential attention: the first half of the heads minus the second (Ye et al. 2024)."""
    module: Any = case.seen.module
    probabilities = case.probabilities.to(value)
    halves = [half.repeat(1, 2, 1, 1).repeat_interleave(case.weights.group, 1) for half in value.chunk(2, 1)]
    both = torch.cat([probabilities @ half for half in halves], -1)  # (sentences, heads, queries, 2 · value_head_dim)
    first, second = both.chunk(2, 1)
    with torch.inference_mode():
        ones, twos = ((getattr(module, f"lambda_q{n}") * getattr(module, f"lambda_k{n}")).sum().exp() for n in (1, 2))
        share = float(ones - twos) + float(module.lambda_init)
        normed = module.groupnorm((first - share * second).to(module.o_proj.weight.dtype)).to(value)
    paired: Tensor = (1 - float(module.lambda_init)) * normed
    by_token: Tensor = paired.transpose(1, 2).flatten(2).unflatten(2, (probabilities.shape[1], -1))
    return by_token.transpose(1, 2)


def _try_writing(case: Case, mixed: Tensor, names: list[str]) -> Iterator[Attempt]:
    """Compare what the heads write with the module, as it is and with the module's norm or gate."""
    weights = case.weights
    written = case.written.reshape(mixed.shape[0], mixed.shape[2], -1).to(mixed)
    if case.module.rule.has_tail:  # the output projection reads further columns after the heads'
        own = case.module.outline.heads * case.module.outline.value_head_dim
        weight: Any = case.seen.projections["O"].weight
        tail = widen(case.seen.reads["O"][..., own:]) @ widen(weight.detach()[:, own:]).T
        written, names = written - tail.to(mixed), [*names, "outputs beside the heads"]

    def residual(heads: Tensor) -> float:
        total = torch.einsum("bhtr,hdr->btd", heads, weights.output.to(heads))
        total = total if weights.output_bias is None else total + weights.output_bias.to(total)
        return float((total - written).abs().max() / written.abs().max().clamp_min(1e-30))

    variants = [(names, mixed)]
    if (norm := case.child(OUTPUT_NORMS)) is not None:
        variants += [([*names, "output norm"], normed) for normed in _norm_outputs(case, norm, mixed)]
    for said, heads in variants:
        yield ", ".join(said), residual(heads), 1.0
        for gate in _gates(case, heads):
            yield ", ".join([*said, "output gate"]), residual(heads * gate), 1.0


def _norm_outputs(case: Case, norm: nn.Module, mixed: Tensor) -> Iterator[Tensor]:
    gain = getattr(norm, "weight", None)
    width = gain.numel() if isinstance(gain, Tensor) else None
    if width in (None, mixed.shape[1] * mixed.shape[3]):
        yield case.call_on_all_heads(norm, mixed)
    if width in (None, mixed.shape[3]):
        yield case.call(norm, mixed)


def _gates(case: Case, mixed: Tensor) -> Iterator[Tensor]:
    """Yield the factors that an output gate may apply, (sentences, heads, queries, value_head_dim or 1)."""
    x = case.seen.reads["Q"]
    heads = mixed.shape[1]
    if case.weights.gate is not None:
        yield rows_by_head(x, case.weights.gate, case.weights.gate_bias).sigmoid()
    if (projection := case.child(GATES)) is not None:
        with torch.inference_mode():
            rows = projection(x).to(mixed)
        if rows.shape[-1] % heads == 0:
            by_head = rows.unflatten(-1, (heads, -1)).transpose(1, 2)
            bias = getattr(case.seen.module, "gate_bias", None)
            if isinstance(bias, Tensor):
                by_head = by_head + bias.detach().to(mixed).reshape(1, heads, 1, -1)
            for squash in (torch.sigmoid, functional.silu, functional.softplus, lambda each: 2 * each.sigmoid()):
                yield squash(by_head)


# (b) A layer's attention follows from its queries and keys.


def _try_scores(case: Case) -> Iterator[Attempt]:
    (query, of_query), (key, of_key) = case.rows("Q"), case.rows("K")
    names = list(dict.fromkeys([*of_query, *of_key]))
    actual = case.probabilities.to(query)
    sums = actual.sum(-1, keepdim=True)
    if bool(((sums > 0) & (sums < 1 - SUM_SLACK.get(case.probabilities.dtype, 1e-3))).any()):
        names = [*names, "attention sink"]
    actual = actual / sums.clamp_min(1e-30)
    yield from _try_softmax(case, query, key, actual, names)
    both = case.child(QUERY_KEY_NORM)
    norms = case.child(QUERY_NORMS) or both, case.child(KEY_NORMS) or both
    if norms != (None, None):
        query, key = _norm_rows(case, norms[0], query), _norm_rows(case, norms[1], key)
        yield from _try_softmax(case, query, key, actual, [*names, "query/key norm"])


def _norm_rows(case: Case, norm: Any, rows: Tensor) -> Tensor:
    if norm is None:
        return rows
    gain = getattr(norm, "weight", None)
    if not isinstance(gain, Tensor) or gain.numel() == rows.shape[-1]:
        return case.call(norm, rows)
    if gain.ndim == 2:  # one gain per head
        return case.call(norm, rows.transpose(1, 2)).transpose(1, 2)
    return case.call_on_all_heads(norm, rows)


def _try_softmax(case: Case, query: Tensor, key: Tensor, actual: Tensor, names: list[str]) -> Iterator[Attempt]:
    query, key = (each.clamp(-case.clip, case.clip) for each in (query, key))  # modules clip after norms
    products = query @ key.repeat_interleave(case.weights.group, 1).mT
    unseen = actual == 0

    def residual(logits: Tensor) -> tuple[float, float]:
        predicted = logits.masked_fill(unseen, -torch.inf).softmax(-1)
        size = float(logits.masked_fill(unseen, 0.0).abs().max())
        return float((predicted.nan_to_num() - actual).abs().max()), size

    usual = query.shape[-1] ** -0.5
    yield ", ".join(names), *residual(usual * products)
    fitted = _fit_scale(products, actual)
    stated = getattr(case.seen.module, "scaling", None)
    for scale in dict.fromkeys((1.0, *([stated] if isinstance(stated, float) else []), fitted)):
        yield ", ".join([*names, f"scale {scale:.4g}"]), *residual(scale * products)
    by_head = torch.tensor([_fit_scale(products[:, [h]], actual[:, [h]]) for h in range(products.shape[1])])
    each = by_head.to(products)[None, :, None, None]
    yield ", ".join([*names, "a scale for each head"]), *residual(each * products)
    config: Any = getattr(case.seen.module, "config", None)
    cap = getattr(config, "attn_logit_softcapping", None)
    if cap:
        for scale in (usual, getattr(case.seen.module, "scaling", usual)):
            yield ", ".join([*names, "soft cap"]), *residual(cap * torch.tanh(scale * products / cap))
    if len(actual) > 1:  # the first sentence gives the position bias, the others must follow
        for scale in dict.fromkeys((usual, 1.0, fitted)):
            yield (
                ", ".join([*names, "bias of the positions"]),
                *_compare_rise(actual, scale * (products - products[:1])),
            )


def _compare_rise(actual: Tensor, rise: Tensor) -> tuple[float, float]:
    """Compare probabilities with those of the first sentence times the exponential of the rise in score since it.

    Only keys are compared whose probability in the first sentence is not rounded to zero.
    """
    telling = actual[:1] > TELLING
    told = (actual * telling).sum(-1, keepdim=True)
    expected = actual * telling / told.clamp_min(1e-30)
    predicted = (actual[:1].clamp_min(1e-30).log() + rise).masked_fill(~telling | (actual == 0), -torch.inf).softmax(-1)
    off = (predicted.nan_to_num() - expected).abs().where(told > 0.5, 0.0)  # of rows mostly on these keys
    return float(off.max()), float(rise.masked_fill(actual == 0, 0.0).abs().max())


def _fit_scale(products: Tensor, actual: Tensor) -> float:
    """Fit the scale of the products to the log-probabilities by least squares.

    With several sentences their differences are fitted, which have no position bias.
    """
    telling = (actual > TELLING).all(0, keepdim=True)
    rise, run = actual.clamp_min(1e-30).log(), products
    if len(actual) > 1:
        rise, run = rise - rise[:1], run - run[:1]
    return fit_scale(run, rise, telling)
