"""Models in a notebook: data frames, arrays, errors and warnings; the process stays as it was."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

import engine
from engine.architectures.rules import RULES
from engine.library import Model
from engine.values.errors import EngineError, LayerLeftOut, NotFinite, NotFolded
from engine.values.heads import Head
from engine.values.views import HEADS, Query
from tests.conftest import TinyModel
from tests.opening import edited_weights, run_apart

TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def demo() -> Iterator[Model]:
    model = engine.open_model("demo", device="cpu", use_cache=False)
    yield model
    model.close()


def test_the_example_of_the_readme(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    model = engine.open_model(folder, use_cache=False)
    stored = load_file(folder / "model.safetensors")
    query, key = (stored[f"layers.1.self_attn.{name}_proj.weight"].double() for name in "qk")
    heads = model.heads()
    assert len(heads) == 2 * 4
    assert not any(column.startswith("induction") or column == "label" for column in heads.columns)
    assert "label" in model.heads("patterns").columns
    assert heads.columns == [each for each in HEADS.default_columns if each in heads.columns]
    everything = model.heads(all_columns=True)
    assert {"q_energy_rank", "qk_overlap_chance"} <= {*everything.columns}
    assert everything.select(heads.columns).equals(heads)
    ranks = model.ranks(layer=1, matrix="QK")
    assert ranks.select("layer", "matrix").unique().rows() == [(1, "QK")]
    dense = torch.linalg.svdvals(query[24:].T @ key[8:])[:8].numpy()
    np.testing.assert_allclose(model.spectrum("L1H3", "QK"), dense, rtol=1e-9)
    maps = model.attention("The cat sat", "L1")
    assert maps.shape == (4, len(model.tokens("The cat sat")), maps.shape[2])
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(model["L1H3"].W_Q, query[24:].float().numpy())
    np.testing.assert_array_equal(model["L1"].W_K[1], key[:8].float().numpy())


VIEWS: dict[str, Callable[[Model], Any]] = {
    "heads": lambda model: model.heads("patterns", text=TEXT),
    "ranks": lambda model: model.ranks(1, epsilon=0.05, whole_layers=True),
    "singular_values": lambda model: model.singular_values(1, 0, "QK"),
    "circuits": lambda model: model.circuits("L1H0"),
    "composition": lambda model: model.composition(1, 2),
    "directions": lambda model: model.directions(1, 0, "OV", top=3, first=2),
    "patterns": lambda model: model.patterns(1, text=TEXT),
    "rollout": lambda model: model.rollout(TEXT),
    "predictions": lambda model: model.predictions(TEXT, top=3),
    "lens": lambda model: model.lens(TEXT, top=2),
    "contributions": lambda model: model.contributions(TEXT),
    "ablation": lambda model: model.ablation(TEXT, "L1", off=["L1H0"], by_mean=True),
    "explain": lambda model: model.explain(TEXT, "L1H0", position=3),
    "changes": lambda model: model.changes("demo", 1),
    "weights": lambda model: model.weights(norms=True),
    "check": lambda model: model.check(),
    "attention": lambda model: model.table("attention", Query(text=TEXT, layer=Head("decoder", 1))),
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_a_data_frame(view: str, demo: Model) -> None:
    frame = VIEWS[view](demo)
    assert isinstance(frame, polars.DataFrame)
    assert len(frame) > 0
    assert not any(frame[name].is_nan().any() for name in frame.columns if frame[name].dtype.is_float())


def test_another_open_model_is_compared_with(tiny_model: TinyModel) -> None:
    one, other = (engine.open_model(tiny_model("llama"), use_cache=False) for _ in range(2))
    changes = one.changes(other)
    assert changes["layer"].unique().to_list() == [0, 1]
    with pytest.raises(EngineError, match="is not an adapter and has no base"):
        engine.open_model(tiny_model("llama"), use_cache=False).changes()


def test_heads_layers_and_matrices_are_named_as_people_and_tables_do(demo: Model) -> None:
    heads: list[Any] = [3, "3", np.int64(3), "L1H3"]
    for head in heads:
        assert demo.ranks(1, head, "QK").select("layer", "head").rows() == [(1, "3")]
    for circuits in (demo.circuits("L1H3"), demo.circuits("1.3")):
        assert circuits.select("layer", "head").rows() == [(1, "3")]
        assert circuits.equals(demo.circuits(1, 3))
    assert demo.ranks(head="L1H3").equals(demo.ranks("L1H3"))
    assert demo.ranks(1, "all", "qk").equals(demo.ranks("L1", "ALL", "QK"))
    assert demo.ranks(head="all", matrix="QK")["layer"].to_list() == [0, 1, 2, 3]
    assert demo.weights("L1").height == demo.weights(1).height > 0
    offs: list[Any] = ["L0H0 L1H0", "L0H0, 1.0", [(0, 0), "L1H0"]]
    same = [
        (demo.spectrum(1, "QK"), demo.spectrum("L1", "qk")),
        (demo.attention(TEXT, 1), demo.maps(TEXT, 1).weights),
        (demo.attention(TEXT, (1, 3)), demo.attention(TEXT, "L1H3")),
        (demo[1].W_Q, demo["L1"].W_Q),
        (demo[1, 3].W_Q, demo["L1H3"].W_Q),
        (demo.spectrum(demo["L1H3"], "OV"), demo.spectrum(Head("decoder", 1, 3), "OV")),
        (demo.attention(TEXT, 2, off=demo["L1H0"]), demo.attention(TEXT, 2, off="L1H0")),
        *((demo.attention(TEXT, 2, off=off), demo.attention(TEXT, 2, off=["L0H0", "L1H0"])) for off in offs),
    ]
    for one, other in same:
        np.testing.assert_array_equal(one, other)


def arrays_of(model: Model, name: str) -> list[NDArray[Any]]:
    head = model[name]
    return [*head.arrays().values(), head.W_Q, *(model.spectrum(name, matrix) for matrix in ("Q", "QK"))]


def test_arrays_are_the_callers_own(tiny_model: TinyModel) -> None:
    module = torch.nn.MultiheadAttention(32, 4)
    for model in (engine.open_model(tiny_model("llama"), use_cache=False), engine.open_module(module)):
        for name in ("L0H1", "L0"):
            ranks, given = model.ranks(0, whole_layers=True), arrays_of(model, name)
            before = [array.copy() for array in given]
            for array in given:
                array += 1
            for one, other in zip(before, arrays_of(model, name), strict=True):
                np.testing.assert_array_equal(one, other)
            assert model.ranks(0, whole_layers=True).equals(ranks)


def test_heads_that_are_off_change_later_maps(demo: Model) -> None:
    plain, off = demo.attention(TEXT, "L2"), demo.attention(TEXT, "L2", off=["L0H0", "L1H0"])
    assert np.abs(plain - off).max() > 1e-4
    np.testing.assert_array_equal(demo.attention(TEXT, "L2H1"), plain[1])


def test_a_repr_has_few_lines_and_names_the_stacks(demo: Model, tiny_model: TinyModel) -> None:
    for model in (demo, engine.open_model(tiny_model("t5"), use_cache=False)):
        assert 1 <= len(repr(model).splitlines()) <= 5
        assert all(name in repr(model) for name in model.outline.stacks)
    assert repr(demo["L1H0"]).startswith("L1H0: a head of model.layers.1.self_attn")
    assert repr(model["cross.L1H0"]).startswith("cross L1H0: a head of decoder.block.1")


def test_names_complete(demo: Model, tiny_model: TinyModel) -> None:
    assert {"L0", "L0H0", "L3H7"} <= set(demo._ipython_key_completions_())
    t5 = engine.open_model(tiny_model("t5"), use_cache=False)
    keys = t5._ipython_key_completions_()
    assert all(t5[key].name for key in keys)
    assert "cross.L0H1" in keys
    assert {"W_Q", "W_K", "W_V", "W_O", "arrays"} <= set(dir(demo["L1H0"]))
    assert {"heads", "ranks", "attention", "outline"} <= set(dir(demo))
    with pytest.raises(AttributeError, match="has no W_E"):
        _ = demo["L1H0"].W_E


def test_the_usual_names_of_projections_are_those_that_are_found() -> None:
    page = (Path(__file__).parents[2] / "docs" / "notebook.md").read_text(encoding="utf-8")
    named = re.findall("`(.+?)`", page.partition("\nUsual names are ")[2].partition("\n\n")[0])
    assert named
    assert {*named} <= {name for rule in RULES for name in rule.projections.values()}


def test_the_package_offers_what_its_pages_name() -> None:
    assert dir(engine) == ["EngineError", "EngineOptions", "Query", "open_model", "open_module", "survey"]
    assert (engine.EngineError, engine.Query) == (EngineError, Query)
    assert not engine.EngineOptions(use_cache=False).use_cache


REFUSED: list[tuple[Callable[[Model], Any], str]] = [
    (lambda model: model.spectrum("L0H0", "W"), "there is no matrix 'W'; it is one of Q, K, V, O, QK, OV"),
    (lambda model: model.spectrum("L0H0", "QK", distance=-1), "distance is -1; give a whole number from 0"),
    (lambda model: model.maps(TEXT, "L1H0"), "maps are those of a whole layer; give L1"),
    (lambda model: engine.survey([], "never"), "no model is named"),
    (lambda model: model.ranks("L1H2", 5), "L1H2 and head 5 are two places"),
    (lambda model: model.ranks(1, "first"), "'first' is not a head"),
    (lambda model: model.ranks(0, epsilon=float("nan")), "between 0 and 1"),
    (lambda model: model.explain(TEXT, "L1H0", top=0), "top is 0; give a whole number from 1"),
    (lambda model: model.ranks(distance=1.5), "distance is 1.5; give a whole number from 0"),  # type: ignore[arg-type]
    (lambda model: model.explain(TEXT, "L1H0", position=-1), "the sentence has no query -1"),
    (lambda model: model.ranks(layer=[0, 1]), r"\[0, 1\] is not a layer or a head; write 5, 'L5', 'L5H1' or \(5, 1\)"),  # type: ignore[arg-type]
    (lambda model: model.changes(5), "int is not the name of a model"),  # type: ignore[arg-type]
    (lambda model: model.attention(None, "L1"), "the sentence is empty"),  # type: ignore[arg-type]
    (lambda model: model.attention([464, 3797], "L1"), "a sentence is one string; this is of type list"),  # type: ignore[arg-type]
    (lambda model: engine.open_model(torch.nn.Linear(2, 2)), "Linear is not the name of a model; open_module"),  # type: ignore[arg-type]
    (lambda model: engine.open_model("demo", dtype="fp16"), "no dtype is named 'fp16'; give auto, float32, bfloat16"),
    (lambda model: model.heads("labels"), "no part 'labels'"),
    (lambda model: model.table("nothing"), "there is no table 'nothing'"),
    (lambda model: model.weights("L1H2"), "all heads of a layer; ask for L1, or"),
]


@pytest.mark.parametrize(("ask", "said"), REFUSED)
def test_refusals_are_one_line(ask: Callable[[Model], Any], said: str, demo: Model) -> None:
    with pytest.raises(EngineError, match=said) as caught:
        ask(demo)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [LayerLeftOut("its weights"), NotFinite("3 numbers of W_Q are NaN"), NotFolded("x"), EngineError("y" * 5000)],
)
def test_errors_pickle(error: EngineError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_notices_are_warnings_at_the_calling_line(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    with edited_weights(folder) as weights:
        weights["layers.0.self_attn.v_proj.weight"][0, 0] = float("nan")
    model = engine.open_model(folder, use_cache=False)
    with pytest.warns(UserWarning, match="L0 is left out: .*v_proj") as caught:
        ranks = model.ranks()
    assert caught[0].filename == __file__
    assert ranks["layer"].unique().to_list() == [1]
    with edited_weights(folder) as weights:
        del weights["layers.0.self_attn.v_proj.weight"]
    with pytest.warns(UserWarning, match="is left out: layers.N.self_attn") as caught:
        engine.open_model(folder, use_cache=False)
    assert caught[0].filename == __file__


def test_a_sentence_or_a_distance_beyond_the_context_is_said(demo: Model) -> None:
    long, context = "the cat " * 400, demo.outline.context
    for ask in (lambda: demo.attention(long, "L0"), lambda: demo.tokens(long)):
        with pytest.warns(UserWarning, match=f"the model reads the first {context} of") as caught:
            assert context in np.shape(ask())
        assert [each.filename for each in caught] == [__file__]
    with pytest.warns(UserWarning, match=f"distance 5000 is past the context of {context} tokens"):
        demo.spectrum("L0H0", "QK", distance=5000)


def test_a_model_is_closed_after_a_block_and_is_no_sequence() -> None:
    with engine.open_model("demo") as model:
        assert repr(model.maps(TEXT, "L1")).startswith("attention maps of decoder L1: 8 heads × ")
        untyped: Any = model
        for wrong in (list, lambda opened: "L0H0" in opened):
            with pytest.raises(TypeError):
                wrong(untyped)


def test_a_check_goes_on_after_a_layer_with_nan_and_takes_one_layer(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    with edited_weights(folder) as weights:
        weights["layers.1.self_attn.v_proj.weight"][0, 0] = float("nan")
    model = engine.open_model(folder, use_cache=False)
    checked = model.check()
    assert checked["verdict"].to_list() == ["verified"] * 2 + ["not verifiable"] * 2
    note = checked.filter(layer=1, identity="output")["note"].item()
    assert note.startswith("layers.1.self_attn.v_proj.weight holds 1 NaN or infinite numbers")
    assert model.check("L0").equals(checked.filter(layer=0))


APART = """
import gc, os, sys, threading

def process():
    collector = gc.isenabled(), gc.get_freeze_count(), gc.get_threshold()
    return *collector, os.environ.get("OMP_NUM_THREADS"), sys.getswitchinterval()

def of_torch():
    return torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()

def logs():
    return transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()

before = process()
from engine import open_model
model = open_model("demo", use_cache=False)
assert "torch" not in sys.modules
import torch
torch_before = of_torch()
print(*(len(table) > 0 for table in (model.ranks(), model.circuits(), model.composition(), model.heads())))
assert "transformers" not in sys.modules

from engine.checkpoints.library_imports import IMPORT_LOCK

def load():
    with IMPORT_LOCK:
        import transformers
        transformers.LlamaModel

loading = threading.Thread(target=load)
loading.start()
print(model.spectrum("L0H0", "QK", distance=1).shape)
loading.join()
import transformers
logs_before = logs()
print(model.attention("the cat", "L0").shape, len(model.heads("patterns")))
print([one for one, other in zip(before, process()) if one != other], of_torch() == torch_before, logs() == logs_before)
"""


def test_tables_from_weights_do_without_transformers_and_the_process_is_left_as_it_was() -> None:
    """What needs transformers waits while another thread imports it."""
    assert run_apart(APART).splitlines() == ["True True True True", "(32,)", "(8, 4, 4) 32", "[] True True"]


def test_threads_may_share_a_model(demo: Model) -> None:
    texts = [" ".join(TEXT.split()[:count]) for count in range(1, 7)] * 4
    model = engine.open_model("demo", use_cache=False)
    with ThreadPoolExecutor(8) as pool:
        for text, found in zip(texts, pool.map(lambda text: model.attention(text, "L1"), texts), strict=True):
            np.testing.assert_array_equal(found, demo.attention(text, "L1"))


def test_sound_models_give_no_warnings(demo: Model) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        demo.circuits(0)
        demo.patterns(0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_need_not_be_on(demo: Model, mode: Callable[[], Any]) -> None:
    with mode():
        opened = engine.open_model("demo", use_cache=False)
        assert opened.explain(TEXT, 0, 0).equals(demo.explain(TEXT, 0, 0))
    opened.close()
