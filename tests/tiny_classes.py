"""Which types of transformers read or write text, which are common, and which class is a configuration's model."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import transformers
from transformers.models.auto import modeling_auto

TEXT_MAPPINGS = (
    "CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "TEXT_ENCODING",
    "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT",
)  # fmt: skip
"""Transformers' own lists of types that read text, or write it; there are more that read it."""

_COMMON = """
    gpt2 gpt-sw3 openai-gpt gptj gpt_neo gpt_neox opt biogpt bloom mpt llama mistral ministral mixtral qwen2 qwen2_moe
    qwen3 qwen3_moe gemma gemma2 gemma3_text vaultgemma phi phi3 phimoe stablelm starcoder2 cohere cohere2 olmo olmo2
    olmo3 olmoe flex_olmo nemotron glm glm4 helium smollm3 seed_oss arcee apertus ernie4_5 ernie4_5_moe exaone4
    hyperclovax hunyuan_v1_dense jais2 cwm granite granitemoe granitemoeshared minimax_m2 gpt_oss bert roberta
    xlm-roberta xlm-roberta-xl roberta-prelayernorm camembert data2vec-text electra distilbert ernie megatron-bert
    rembert modernbert xlm flaubert bert-generation layoutlm esm eurobert mpnet t5 mt5 umt5 switch_transformers bart
    mbart marian pegasus blenderbot blenderbot-small m2m_100 nllb-moe mvp plbart
"""

COMMON_TYPES = tuple(_COMMON.split())
"""The types of most models that people open."""

NOT_TEXT = frozenset({"imagegpt"})
"""Types whose ``input_ids`` are something else: clusters of colours."""


def base_class(config: transformers.PretrainedConfig) -> Any:
    """Find the class to build: the base class, else one with a head, else that of a part of a larger model.

    Raises
    ------
    ValueError : when there is none.
    """
    for kind in ("", "ForSeq2SeqLM", "ForCausalLM", "ForMaskedLM"):
        found = getattr(transformers, f"AutoModel{kind}")._model_mapping.get(type(config), None)
        first = found[0] if isinstance(found, (tuple, list)) else found
        is_of_another = first is not None and _folder(first) != _folder(type(config))  # llama's, of a type like it
        if first is not None and (is_of_another or isinstance(config, first.config_class)):
            return first
    parts = _parts(type(config))
    if not parts:
        raise ValueError(f"no class of transformers is made from a {type(config).__name__}")
    return parts[0]


def _folder(each: type) -> str:
    return each.__module__.rpartition(".")[0]


def _parts(config_class: type) -> list[Any]:
    """List the models that are made from a configuration, those first that read text and have no head."""
    module = importlib.import_module(config_class.__module__.replace(".configuration_", ".modeling_"))
    classes = (each for each in vars(module).values() if inspect.isclass(each))
    models = [
        each for each in classes
        if issubclass(each, transformers.PreTrainedModel) and each.config_class is config_class
        and not each.__name__.endswith("PreTrainedModel")
    ]  # fmt: skip
    return sorted(models, key=lambda each: (not _reads_ids(each), not each.__name__.endswith("Model")))


def _reads_ids(model_class: Any) -> bool:
    """Say whether token ids are what a model reads, and all that it asks for.

    A pair of towers gives the features of its text apart, and reads text only together with something else.
    """
    _, first, *others = inspect.signature(model_class.forward).parameters.values()
    asked = [each for each in others if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    return first.name == "input_ids" and not asked and not hasattr(model_class, "get_text_features")


def all_types() -> list[str]:
    """Name every type that reads or writes text: those of its own lists, and those whose model reads token ids."""
    listed = [getattr(modeling_auto, f"MODEL_FOR_{mapping}_MAPPING_NAMES", {}) for mapping in TEXT_MAPPINGS]
    found = set().union(*listed)
    for model_type in list(transformers.CONFIG_MAPPING):
        if model_type not in found | NOT_TEXT:
            config_class: Any = transformers.CONFIG_MAPPING[model_type]
            try:
                if _reads_ids(base_class(config_class.__new__(config_class))):
                    found.add(model_type)
            except (ImportError, ValueError):  # a model of another library, or a part that is no model
                continue
    return sorted(found)
