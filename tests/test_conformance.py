"""The table of all types is up to date: a sample is checked again, and the engine's list of proven types follows it."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from transformers.models.auto import modeling_auto

from engine.architectures.outline import PROVEN_TYPES
from tests.architecture_cases import ARCHITECTURES
from tests.conformance import check, table
from tests.tiny_classes import TEXT_MAPPINGS
from tests.tiny_configurations import is_newest

REPRESENTATIVES = [
    "afmoe", "albert", "bitnet", "codegen", "dbrx", "deberta", "deepseek_v3", "falcon", "gemma3", "gemma4_text",
    "blip_text_model", "canary", "encoder-decoder", "funnel", "gpt_oss", "jamba", "kosmos_2_text_model", "llama4",
    "longcat_flash", "longformer", "mamba", "mimo_v2_flash", "mistral_large4", "muse_spark", "nanochat", "nomic_bert",
    "qwen3_next", "t5gemma", "t5gemma2", "whisper", "xlnet", "xmod", "zamba",
    "bert", "bros", "deepseek_v32", "fsmt", "gemma3n_text", "gpt_neox", "mbart", "mistral_large4_text", "mixtral", "t5",
]  # fmt: skip
"""One type of each layout and each unusual feature, and one for each reason to be declined; then ways of reading."""


TYPES = {row.model_type: row for row in table()}


@pytest.mark.parametrize("model_type", REPRESENTATIVES)
def test_a_type_is_what_the_table_says(model_type: str) -> None:
    if not is_newest():
        found = check(model_type)  # this release may not have the type yet, or return less of its attention
        assert "WRONG" not in (found.output, found.scores)
        assert found.outcome == TYPES[model_type].outcome or found.outcome in ("not built", "unproven")
        return
    # Not the residual of the maps, which differs between machines, nor the wording of other libraries' errors.
    assert astuple(check(model_type))[:7] == astuple(TYPES[model_type])[:7]


def test_the_engines_list_of_proven_types_is_that_of_the_table() -> None:
    proven = {row.model_type for row in TYPES.values() if row.outcome == "proven"}
    assert proven | set(ARCHITECTURES) == PROVEN_TYPES


def test_every_type_that_transformers_lists_has_its_line() -> None:
    listed = [set(getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES")) for name in TEXT_MAPPINGS]
    assert {"cohere_asr", "gpt2", "t5"} <= set().union(*listed)
    if is_newest():
        assert set().union(*listed) - TYPES.keys() == set()


def test_no_type_is_cut_wrongly_and_every_unproven_one_has_its_reason() -> None:
    rows = TYPES.values()
    assert [row.model_type for row in rows if "WRONG" in (row.output, row.scores)] == []
    assert [row.model_type for row in rows if row.outcome == "failed"] == []
    assert [row.model_type for row in rows if row.outcome != "proven" and not row.reason] == []
