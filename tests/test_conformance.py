"""The table of all types is up to date: a sample is checked again, and the engine's list of proven types follows it."""

from __future__ import annotations

import re
from dataclasses import astuple

import pytest
from transformers.models.auto import modeling_auto

from engine.architectures.outline import PROVEN_TYPES
from tests.conformance import check, table
from tests.tiny_classes import COMMON_TYPES, TEXT_MAPPINGS
from tests.tiny_configurations import is_newest

REPRESENTATIVES = [
    "afmoe", "bitnet", "blip_text_model", "bros", "canary", "deepseek_v3", "deepseek_v32", "encoder-decoder", "falcon",
    "fsmt", "funnel", "gemma3", "gemma3n_text", "gemma4_text", "jamba", "kosmos_2_text_model", "llama4", "longformer",
    "mamba", "mimo_v2_flash", "mistral_large4", "mistral_large4_text", "nanochat", "nomic_bert", "qwen3_next",
    "t5gemma", "t5gemma2", "xmod", "zamba",
]  # fmt: skip
"""Of the types that are not common, one of each unusual feature, and for each reason to be declined.

Rare layouts have tests of their own.
"""

TYPES = {row.model_type: row for row in table()}


@pytest.mark.parametrize("model_type", REPRESENTATIVES)
def test_a_type_is_what_the_table_says(model_type: str) -> None:
    found, expected = check(model_type), TYPES[model_type]
    if not is_newest():  # this release may not have the type yet, or return less of its attention
        assert "WRONG" not in (found.output, found.scores)
        assert found.outcome == expected.outcome or found.outcome in ("not built", "unproven")
        return
    assert astuple(found)[:7] == astuple(expected)[:7]  # not the wording of other libraries' errors
    assert are_alike(found.maps) if are_alike(expected.maps) else found.maps == expected.maps


def are_alike(maps: str) -> bool:
    """Say whether maps differ from the model's own by rounding alone, whose size depends on the machine."""
    return re.fullmatch(r"\de[-+]\d+", maps) is not None and float(maps) < 1e-4


def test_the_engines_list_of_proven_types_is_that_of_the_table() -> None:
    proven = {row.model_type for row in TYPES.values() if row.outcome == "proven"}
    assert set(COMMON_TYPES) <= proven == PROVEN_TYPES


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
