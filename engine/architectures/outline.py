"""The outline of a model's attention, from its configuration, tensor names and stored shapes; no weight is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.architectures.configuration import context, head_count, head_widths, unscaled_length
from engine.architectures.places import FoundModule, place_modules
from engine.architectures.rules import (
    CONVOLUTION_GROUPS,
    LATENT_TENSORS,
    NEIGHBOUR_MARKS,
    SETTING_MARKS,
    SHARING_TYPES,
    TYPE_MARKS,
    TYPES_WITHOUT_ONE_MATRIX,
    Latent,
    Layout,
    Rule,
    sibling,
    tensor_of,
    why_never_rotated,
)
from engine.architectures.tensors import TensorEntry
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import STACKS, Head
from engine.values.outline import MARKS, LayerOutline, ModelOutline

ADAPTED = "low-rank adapters"
"""The mark of heads whose matrices are not all that the model multiplies with."""

_NAMES = """
    afmoe aimv2_text_model albert align_text_model altclip_text_model apertus arcee aria aria_text audioflamingo3 axk1
    aya_vision bailing_hybrid bamba bart beam bert bert-generation big_bird bigbird_pegasus biogpt bitnet blenderbot
    blenderbot-small blip_text_model bloom blt blt_patcher bridgetower_text_model bros camembert canary_decoder canine
    chameleon chinese_clip_text_model clap_text_model clip_text_model clipseg_text_model clvp_decoder codegen cohere
    cohere2 cohere2_moe cohere2_vision cohere_compass cohere_compass_text colmodernvbert colpali colqwen2 convbert
    cosmos3_edge cosmos3_edge_text cosmos3_omni cpmant csm ctrl cwm data2vec-text dbrx deberta deberta-v2 deepseek_ocr2
    deepseek_ocr2_text deepseek_v2 deepseek_v3 deepseek_v32 deepseek_vl deepseek_vl_hybrid dia dia_encoder diffllama
    diffusion_gemma_text distilbert dots1 dots3_note dots3_note_text dpr electra embedding_gemma2 embedding_gemma2_text
    emu3 emu3_text_model encoder-decoder ernie ernie4_5 ernie4_5_moe ernie4_5_vl_moe ernie4_5_vl_moe_text esm esmc
    eurobert exaone4 exaone4_5 exaone_moe falcon falcon_h1 flaubert flava_text_model flex_olmo flint florence2 fsmt
    fun_asr_nano funnel fuyu gemma gemma2 gemma3 gemma3_text gemma3n_text gemma4 gemma4_text gemma4_unified
    gemma4_unified_text git glm glm4 glm46v glm4_moe glm4_moe_lite glm4v glm4v_moe glm4v_moe_text glm4v_text glm5_next
    glm5_next_text glm_image glm_image_text glm_moe_dsa glm_ocr glm_ocr_text glmasr glmga got_ocr2 gpt-sw3 gpt2
    gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gpt_oss gptj granite granite4_vision granite4_vision_text
    granite_docling granite_docling_text granite_speech granite_speech_plus granite_swa granitemoe granitemoe_swa
    granitemoehybrid granitemoeshared groupvit_text_model gte helium higgs_audio_v2 hunyuan_v1_dense hunyuan_v1_moe
    hunyuan_vl hunyuan_vl_text hy_v3 hy_v4 hyperclovax hyperclovax_vision_v2 ibert idefics2 idefics3 inkling_text
    internlm3 internvl iquestcoder jais2 jamba janus jina_embeddings_v3 kimi_k25 kimi_linear kolibri1 kosmos-2.5
    kosmos_2_5_text_model kosmos_2_text_model laguna layoutlm layoutlmv3 led lfm2 lfm2_moe lfm2_vl lfm3 lfm3_vl
    lighton_ocr lilt llama llama4 llama4_text llava llava_next llava_next_video llava_onevision longcat_flash longformer
    longt5 luke m2m_100 marian markuplm mbart megatron-bert mellum metaclip_2_text_model mimo_v2_flash minicpm3
    minicpm_ocr minicpmv4_6 minicpmv4_7 minimax minimax_m2 minimax_m3_vl minimax_m3_vl_text ministral ministral3 mistral
    mistral3 mistral4 mistral_large4 mistral_large4_text mixtral mllama mllama_text_model mobilebert modernbert
    modernbert-decoder modernvbert molmo2 molmo2_text moonshine moonshine_streaming moshi moss_transcribe_diarize mpnet
    mpt mt5 muse_glimmer muse_glimmer_text muse_spark muse_spark_text musicflamingo mvp nanochat nemo_speechlm nemotron
    nemotron_h nemotron_h_omni nllb-moe nomic_bert olmo olmo2 olmo3 olmo_hybrid olmoe openai-gpt openai_privacy_filter
    opt ovis2 owlv2_text_model owlvit_text_model paddleocr_vl paddleocr_vl_text paligemma pegasus persimmon phi phi3
    phi4_multimodal phimoe plbart pocket_tts pop2piano pp_formulanet_text qianfan_ocr qwen2 qwen2_5_omni_talker
    qwen2_5_omni_text qwen2_5_omni_thinker qwen2_5_vl qwen2_5_vl_text qwen2_audio qwen2_moe qwen2_vl qwen2_vl_text qwen3
    qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe_text
    qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text qwen4_exp qwen4_exp_text
    recurrent_gemma rembert roberta roberta-prelayernorm roc_bert roformer seamless_m4t seamless_m4t_v2 seed_oss
    siglip2_text_model siglip_text_model smollm3 smolvlm solar_open speech-encoder-decoder splinter squeezebert stablelm
    starcoder2 step3p5 step3p7 switch_transformers t5 t5gemma t5gemma2 t5gemma2_encoder t5gemma2_text tapas
    tipsv2_text_model trocr udop ultrabert ultravbert umt5 unlimited_ocr unlimited_ocr_text vaultgemma vibevoice
    vibevoice_asr video_llama_3 video_llava videoprism_text_model vipllava visual_bert voxtral whisper xclip_text_model
    xglm xlm xlm-roberta xlm-roberta-xl xlnet xmod youtu zamba zamba2
"""

PROVEN_TYPES = frozenset(_NAMES.split())
"""Types for which a test has cut a model into heads by the rules and computed its attention from them."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttentionModule:
    """One attention module of a checkpoint: its layer, the rule that cuts it, and its tensors' names by matrix.

    Attributes
    ----------
    latents, output_first : the first steps of projections with two steps, and of such an output projection.
    key_value_module : the module that owns keys and values; another one if layers share them.
    is_gated : whether each head's query rows are followed by those of an output gate.
    change_of : the layer of which this is an adapter's change, or None for an ordinary layer.
    """

    outline: LayerOutline
    rule: Rule
    weights: Mapping[str, str]
    biases: Mapping[str, str]
    latents: Mapping[str, Latent]
    output_first: str | None
    key_value_module: str
    is_gated: bool
    change_of: AttentionModule | None = None

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """Every tensor that contributes to its matrices and biases."""
        steps = (name for latent in self.latents.values() for name in (latent.down, latent.norm, latent.bias))
        names = (*self.weights.values(), *self.biases.values(), *steps, self.output_first)
        return tuple(dict.fromkeys(filter(None, names)))


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A model's outline, and the module of each layer."""

    outline: ModelOutline
    modules: Mapping[Head, AttentionModule]


def shapes_of(
    owners: Mapping[str, str],
    rule: Rule,
    latents: Mapping[str, Latent],
    entries: Mapping[str, TensorEntry],
    config: Mapping[str, Any],
) -> tuple[dict[str, Shape], dict[str, str]]:
    """Collect the shapes ``[out, in]`` of a layer's projections and first steps, and the projections' tensors.

    ``owners`` names the module of each matrix; keys and values may be another layer's. Raises `EngineError` when a
    tensor is missing, or is no matrix.
    """
    shapes: dict[str, Shape] = {}
    weights: dict[str, str] = {}
    for matrix, name in rule.projections.items():
        weights[matrix] = tensor = named_tensor(entries, owners[matrix], name)
        shape = entries[tensor].shape
        if len(shape) == 3 and rule.is_by_head:
            across = shape[1] * shape[2]
            shapes[matrix] = (shape[0], across) if matrix == "O" else (across, shape[0])
        elif len(shape) == 3 and shape[2] == 1:
            shapes[matrix] = (shape[0], shape[1] * (config.get(CONVOLUTION_GROUPS[matrix]) or 1))
        elif len(shape) == 2:
            shapes[matrix] = shape[::-1] if rule.stored_transposed else shape
        else:
            raise EngineError(f"{tensor} has shape {list(shape)}, not that of a matrix")
    if rule.output_first:
        groups = config.get(rule.output_groups) or 1
        rows, columns = entries[named_tensor(entries, owners["O"], rule.output_first)].shape
        if shapes["O"][1] != rows:
            raise EngineError(f"{owners['O']}: the two steps of its output projection do not fit each other")
        shapes["O"] = (shapes["O"][0], columns * groups)
    for matrix, latent in latents.items():
        for part, tensor, axes, what in (("down", latent.down, 2, "matrix"), ("norm", latent.norm, 1, "gain")):
            shape = entries[tensor].shape
            if len(shape) != axes:
                raise EngineError(f"{tensor} has shape {list(shape)}, not that of a {what}")
            shapes[f"{part} {matrix}"] = shape
    return shapes, weights


def named_tensor(entries: Mapping[str, TensorEntry], module: str, name: str) -> str:
    """Find a tensor that a rule names; `EngineError` when it is missing."""
    tensor = tensor_of(entries, module, name)
    if tensor is None:
        raise EngineError(f"{sibling(module, name)}.weight is not in the checkpoint; download or save the model again")
    return tensor


def biases_of(
    owners: Mapping[str, str],
    rule: Rule,
    entries: Mapping[str, TensorEntry],
    shapes: Mapping[str, Shape],
    outline: LayerOutline,
) -> dict[str, str]:
    """Find the biases of a layer's projections, by matrix; `EngineError` when one has a wrong length."""
    found: dict[str, str] = {}
    for matrix, name in rule.projections.items():
        beside = f"{named_tensor(entries, owners[matrix], name).removesuffix('.weight')}.bias"
        bias = sibling(owners[matrix], rule.biases[matrix]) if matrix in rule.biases else beside
        if bias not in entries:
            continue
        rows = outline.shape(matrix, True)[0]
        length = entries[bias].parameters
        together = rows + sum(shapes[each][0] for each in "QKV" if each != matrix)
        if length not in ({rows, shapes[matrix][0], together} if matrix in rule.biases else {shapes[matrix][0]}):
            raise EngineError(f"{bias} has shape {list(entries[bias].shape)}, not {[shapes[matrix][0]]}")
        found[matrix] = bias
    return found


def lay_out_heads(
    place: Head, module: str, rule: Rule, shapes: Mapping[str, Shape], heads: int
) -> tuple[LayerOutline, bool]:
    """Derive a layer's counts and widths from shapes and the number of its query heads.

    ``head_dim_v = W_O.in / H``, ``H_kv = W_V.out / head_dim_v``, ``head_dim_k = W_K.out / H_kv``. Shapes of a
    first step are called ``down Q``, of its norm ``norm Q``.

    Returns the outline, without marks, and whether each head's query rows are followed by as many of an output gate.
    Raises `EngineError` when the shapes do not fit each other.
    """
    width = heads * (shapes["V"][0] // heads) if rule.has_tail else shapes["O"][1]
    value_head_dim, rest = divmod(width, heads)
    if rest or not value_head_dim:
        raise EngineError(
            f"{module}: {quantity(heads, 'head')} cannot share the output projection's width {width}; "
            "config.json and the weights have different numbers of heads"
        )
    shared, head_dim = _key_value_heads(rule.layout, shapes, heads, value_head_dim)
    parts = 4 if rule.layout is Layout.QUARTERS else 1
    if shared < 1 or heads % shared or shared % parts:
        sizes = ", ".join(f"{matrix} {shapes[matrix][0]}×{shapes[matrix][1]}" for matrix in "QKVO")
        raise EngineError(
            f"{module}: projections of {sizes} cannot be cut into {quantity(heads, 'head')}; "
            "attn-tui does not know this form"
        )
    reads = {matrix: shapes[f"down {matrix}" if matrix in rule.latents else matrix][1] for matrix in "QKV"}
    outline = LayerOutline(
        place.stack, place.layer, heads, shared,
        d_model=reads["Q"], d_source=reads["K"], d_values=reads["V"], d_output=shapes["O"][0],
        head_dim=head_dim, value_head_dim=value_head_dim, module=module,
    )  # fmt: skip
    return outline, rule.layout is Layout.SEPARATE and shapes["Q"][0] == 2 * heads * head_dim


def _key_value_heads(layout: Layout, shapes: Mapping[str, Shape], heads: int, value_head_dim: int) -> tuple[int, int]:
    """Count the key/value heads and the rows of a head's query; zeros if the shapes do not fit each other."""
    query, key, value = (shapes[matrix][0] for matrix in "QKV")
    head_dim = value_head_dim
    if layout is Layout.SEPARATE:  # the queries may be twice as high, for an output gate
        shared = max(1, value // value_head_dim)
        head_dim = key // shared
        fits = query in (heads * head_dim, 2 * heads * head_dim)
        fits = fits and key == shared * head_dim and value == shared * value_head_dim
    elif layout is Layout.PAIRED:
        shared, rest = divmod(key, 2 * value_head_dim)
        fits = not rest and query == heads * head_dim
    elif layout is Layout.LATENT:  # multi-head latent attention (DeepSeek-AI 2024): keys end in shared rows
        shared, rank, shared_rows = heads, shapes["K"][1], shapes["down K"][0] - shapes["K"][1]
        own_rows, rest = divmod(key - heads * value_head_dim, heads)
        head_dim = own_rows + shared_rows
        fits = rest == 0 and own_rows > 0 and shared_rows >= 0 and shapes["norm K"] == (rank,)
        fits = fits and query == heads * head_dim
        fits = fits and ("down Q" not in shapes or shapes["down Q"][0] == shapes["Q"][1] == shapes["norm Q"][0])
    else:
        shared = (query // head_dim - heads) // 2
        fits = (heads + 2 * shared) * head_dim == query
    return (shared, head_dim) if fits else (0, 0)


def describe_attention(
    place: Head, found: FoundModule, entries: Mapping[str, TensorEntry], config: Mapping[str, Any]
) -> AttentionModule:
    """Describe one attention module; `EngineError` when its shapes do not fit each other or the number of heads."""
    module, rule, owner = found.module, found.rule, found.key_value_owner or found.module
    owners = {"Q": module, "K": owner, "V": owner, "O": module}
    latents: dict[str, Latent] = {}
    for matrix, latent in rule.latents.items():
        down, norm = (named_tensor(entries, owners[matrix], name) for name in (latent.down, latent.norm))
        bias = f"{down.removesuffix('.weight')}.bias"
        latents[matrix] = Latent(down, norm, bias if bias in entries else None)
    shapes, weights = shapes_of(owners, rule, latents, entries, config)
    outline, is_gated = lay_out_heads(place, module, rule, shapes, head_count(config, place, module, rule.head_ratio))
    widths = head_widths(config, place)
    if widths and rule.layout is not Layout.LATENT and not widths & {outline.head_dim, outline.value_head_dim}:
        raise EngineError(
            f"{module}: {outline.heads} heads would be {outline.head_dim} wide, but config.json has heads of "
            f"{' or '.join(map(str, sorted(widths)))}; attn-tui does not know this form"
        )
    biases = biases_of(owners, rule, entries, shapes, outline)
    holding = {
        "weights shared by layers": config.get("model_type") in SHARING_TYPES,
        "keys and values of another layer": found.key_value_owner is not None,
        "output gate": is_gated,
        "query/key bias": not {"Q", "K"}.isdisjoint(biases),
    }
    marks = (*_known_marks(module, entries, config, place), *(mark for mark, holds in holding.items() if holds))
    return AttentionModule(
        outline=replace(outline, marks=tuple(dict.fromkeys(marks))),
        rule=rule,
        weights=weights,
        biases=biases,
        latents=latents,
        output_first=named_tensor(entries, module, rule.output_first) if rule.output_first else None,
        key_value_module=owner,
        is_gated=is_gated,
    )


def _known_marks(module: str, tensors: Iterable[str], config: Mapping[str, Any], place: Head) -> Iterator[str]:
    parent = f"{module}."
    beside = {name[len(parent) :].partition(".")[0] for name in tensors if name.startswith(parent)}
    yield from (NEIGHBOUR_MARKS[name] for name in sorted(beside & NEIGHBOUR_MARKS.keys()))
    model_type = config.get("model_type")
    if place.stack != "cross" and model_type in TYPE_MARKS:
        yield TYPE_MARKS[model_type]
    yield from (mark for setting, mark in SETTING_MARKS.items() if config.get(setting))


def read_anatomy(
    name: str, where: str, config: Mapping[str, Any], entries: Mapping[str, TensorEntry], notes: tuple[str, ...] = ()
) -> Anatomy:
    """Find every attention layer among a model's tensors.

    Raises `EngineError`, naming the type, when the model has no attention that the rules can cut into heads.
    """
    model_type = config.get("model_type") or "unknown"
    if model_type in TYPES_WITHOUT_ONE_MATRIX:
        raise EngineError(f"models of type '{model_type}' have {TYPES_WITHOUT_ONE_MATRIX[model_type]}")
    if any(".lora_A." in tensor for tensor in entries):
        raise EngineError(
            f"{name} keeps adapters beside its weights; merge them first: model = model.merge_and_unload()"
        )
    places, left_out = place_modules(entries, model_type, config)
    modules = {place: describe_attention(place, found, entries, config) for place, found in places.items()}
    if not modules:
        raise EngineError(_why_none(model_type, entries))
    notes = (*notes, *_notes(model_type, left_out, config))
    if any(ADAPTED in module.outline.marks for module in modules.values()):
        notes = (*notes, f"{ADAPTED}: {MARKS[ADAPTED]}")
    anatomy = anatomy_of(name, where, model_type, modules, entries, context(config, model_type), notes)
    return replace(anatomy, outline=replace(anatomy.outline, no_rotation=why_never_rotated(model_type, config)))


def anatomy_of(
    name: str,
    where: str,
    model_type: str,
    modules: Mapping[Head, AttentionModule],
    entries: Mapping[str, TensorEntry],
    longest: int | None,
    notes: tuple[str, ...],
) -> Anatomy:
    """Put attention modules in reading order, and describe the whole model."""
    ordered = dict(sorted(modules.items(), key=lambda item: (STACKS.index(item[0].stack), item[0].layer)))
    first = next(iter(ordered.values()))
    outline = ModelOutline(
        name,
        where,
        model_type,
        tuple(module.outline for module in ordered.values()),
        entries[first.weights["Q"]].dtype,
        sum(entry.parameters for entry in entries.values()),
        sum(entry.stored_bytes for entry in entries.values()),
        longest,
        notes,
    )
    return Anatomy(outline, ordered)


def _notes(model_type: str, left_out: list[str], config: Mapping[str, Any]) -> list[str]:
    notes = []
    if model_type not in PROVEN_TYPES:
        notes.append(f"heads of type '{model_type}' were found by their names; no test proves this type yet")
    notes += left_out
    if "max_2d_position_embeddings" in config or "bbox_scale" in config:  # tokens have boxes on a page
        notes.append("tokens have no page positions here: all their boxes are zero")
    if longest := unscaled_length(config, config.get("rope_parameters") or config.get("rope_scaling")):
        notes.append(
            f"QK at a distance holds for sentences of up to {longest} tokens; longer ones scale rotary positions"
        )
    if config.get("is_encoder_decoder") and config.get("decoder_start_token_id") is None:
        notes.append("no decoder_start_token_id is set: the decoder reads the sentence without a start token")
    return notes


def _why_none(model_type: str, entries: Mapping[str, TensorEntry]) -> str:
    models = f"models of type '{model_type}'"
    if any(f"{name}." in entry for name in LATENT_TENSORS for entry in entries):
        return f"{models} use multi-head latent attention, which attn-tui cannot cut into heads yet"
    return (
        f"{models} have no softmax attention that attn-tui knows: "
        "no query, key, value and output projections among their weights"
    )


def note_lost_files(anatomy: Anatomy, lost: Mapping[str, str], *, is_read: bool = True) -> Anatomy:
    """Note in a model's outline which files are missing, and what cannot be shown without them.

    ``lost`` says by tensor why it cannot be read. ``is_read`` says whether the complete model could read a sentence.
    """
    if not lost:
        return anatomy
    why, files = next(iter(lost.values())), len(set(lost.values()))
    modules = anatomy.modules.values()
    without = sum(any(name in lost for name in (*each.weights.values(), *each.biases.values())) for each in modules)
    until_then = [f"{without} of {quantity(len(modules), 'layer')} cannot be shown"] if without else []
    until_then += ["no sentence can be read"] if is_read else []
    note = f"{why} ({files} files are missing or damaged)" if files > 1 else why
    note += f"; until then {', and '.join(until_then)}" if until_then else ""
    unreadable = f"{why}; a sentence is read by the whole model" if is_read else anatomy.outline.unreadable
    notes = (*anatomy.outline.notes, note)
    return replace(anatomy, outline=replace(anatomy.outline, notes=notes, unreadable=unreadable))
