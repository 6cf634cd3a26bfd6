"""Every known type is cut into heads, whose matrices give the model's own attention in the form of its type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiny_models
from tests.architecture_cases import ARCHITECTURES, Scores, expected_counts, settings_of
from tests.opening import open_folder, prove_layers
from tests.tiny_configurations import tiny_configuration

MODIFIERS = {
    Scores.PLAIN: (),
    Scores.NORMED: ("query/key norm",),
    Scores.BIASED: ("bias of the positions",),
    Scores.CAPPED: ("soft cap",),
    Scores.SINKING: ("attention sink",),
}
"""What a check names beside queries and keys, by how a type turns these into scores."""


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_heads_are_found_and_reproduce_the_attention(model_type: str, tmp_path: Path) -> None:
    case, settings = ARCHITECTURES[model_type], settings_of(model_type)
    model = tiny_models.build(tiny_configuration(model_type, **settings), with_head=True)
    model.save_pretrained(tmp_path)
    outline, proofs = open_folder(tmp_path)[2].outline, prove_layers(tmp_path)
    assert outline.stacks == case.stacks
    for stack in outline.stacks:
        layers = outline.stack_layers(stack)
        count, *expected = expected_counts(model_type, settings, stack)
        assert [layer.layer for layer in layers] == list(range(count))
        for layer in layers:
            assert [layer.heads, layer.key_value_heads, layer.head_dim] == expected
            assert layer.value_head_dim == layer.head_dim
            assert set(case.marks) <= set(layer.marks)
            assert layer.marks or stack == "cross" or case.scores is Scores.PLAIN
            output, scores = proofs[layer.name].output, proofs[layer.name].scores
            assert (output.holds, output.note, scores.holds) == (True, "", True)
            modifiers = [each for each in scores.note.split(", ") if each and not each.startswith("scale ")]
            assert modifiers == [*MODIFIERS[case.scores]] or (stack == "cross" and not modifiers)
            assert case.scale is not None or case.scores is not Scores.PLAIN or not scores.note
