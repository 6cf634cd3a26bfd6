"""One layer that is being checked: its heads as they were cut, what its module did, and the norms beside it."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.architectures.heads import LayerWeights
from engine.architectures.outline import AttentionModule
from engine.models.devices import wide
from engine.models.witness import Observation

VALUE_NORMS = ("v_norm", "v_layernorm", "value_norm", "value_layernorm", "kv_norm")
QUERY_NORMS = ("q_norm", "q_layernorm", "query_norm", "query_layernorm", "q_b_norm")
KEY_NORMS = ("k_norm", "k_layernorm", "key_norm", "key_layernorm", "kv_norm")
KEY_CONVOLUTION, VALUE_CONVOLUTION = ("k_sconv",), ("v_sconv",)
SHARED_QUERY_KEY_NORM = "qk_norm"
OUTPUT_NORMS = ("attn_sub_norm", "sub_norm", "inner_attn_ln", "o_norm")
GATES = ("gate_proj", "g_proj", "g")
SHARED_KEY_NORM = "k_rope_only_layernorm"
"""What models call the modules beside the projections that act on values, queries, keys and heads' outputs."""

LATENT_SCALES = {"Q": ("mla_scale_q_lora", "q_lora_scale"), "K": ("mla_scale_kv_lora", "kv_lora_scale")}
VALUE_SCALE, CLIP = "v_scale", "clip_qkv"
"""What attention modules call the numbers that they multiply latents and values by, and at which they cut them off."""


Try = tuple[str, float, float]
"""What a model does beside a plain formula, how far that is from its own numbers, and the largest that are rounded."""


@dataclass(frozen=True)
class Case:
    """One layer that is being checked."""

    module: AttentionModule
    weights: LayerWeights
    seen: Observation

    def child(self, names: tuple[str, ...]) -> Any:
        """Find a module beside the projections by one of its names, or None."""
        is_of_keys = names in (KEY_NORMS, VALUE_NORMS)
        owner = self.seen.key_value_module if is_of_keys else self.seen.module
        children = dict(owner.named_children())
        return next((children[name] for name in names if name in children), None)

    @property
    def clip(self) -> float:
        """Give the size at which the module cuts queries, keys and values off; infinite where it does not."""
        module: Any = self.seen.module
        clip = getattr(module, CLIP, getattr(getattr(module, "config", None), CLIP, None))
        return math.inf if clip is None else float(clip)

    @property
    def loads_rounded(self) -> bool:
        """Whether projections in two steps were rounded as they were loaded, of which only the product is known."""
        dtype = self.seen.loaded_as
        if dtype is None or not (self.module.latents or self.module.output_first):
            return False
        return any(float(each.min()) < torch.finfo(dtype).eps for each in self.weights.epsilons.values())

    def latent_size(self, matrix: str) -> Tensor | None:
        """Give what a first step's norm multiplies a token's latent by, (sentences, tokens, 1), or None."""
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
        return size * next((scale for scale in scales if scale is not None), 1.0)


def takes_rows_alone(module: nn.Module) -> bool:
    """Say whether a module can be called with nothing but rows."""
    given = list(inspect.signature(module.forward).parameters.values())[1:]
    return all(each.default is not each.empty or each.kind is each.VAR_KEYWORD for each in given)


def convolve(convolution: nn.Module, rows: Tensor, seen: Observation) -> Tensor:
    """Call one of the model's own convolutions over tokens on all heads' rows together."""
    written: Tensor = call_norm(convolution, rows.transpose(1, 2).flatten(2), seen)
    by_head: Tensor = written.unflatten(2, (rows.shape[1], -1))
    return by_head.transpose(1, 2)


def relative(difference: Tensor, whole: Tensor) -> float:
    """Give the largest difference relative to the largest number."""
    return float(difference.abs().max() / whole.abs().max().clamp_min(1e-30))


def rows_by_head(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Project (sentences, tokens, width) by head, in float64 where there is one: (sentences, heads, tokens, rows)."""
    rows = torch.einsum("btd,hrd->bhtr", wide(x), wide(weight.to(x.device)))
    return rows if bias is None else rows + bias[None, :, None].to(rows)


def call_norm(norm: nn.Module, rows: Tensor, seen: Observation) -> Tensor:
    """Call one of the model's own norms in the dtype that it has while its layer is checked."""
    assert seen.written is not None
    with torch.inference_mode():
        dtype = torch.promote_types(seen.written.dtype, torch.float32)
        result: Tensor = norm(rows.to(dtype)).to(rows)
    return result
