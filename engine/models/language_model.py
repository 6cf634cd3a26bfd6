"""A loaded model with its language-modelling head: what turns its last states into a logit for every token.

Reading maps takes no head, so it is put on when a prediction is first asked for: the class with a head is made without
memory (on PyTorch's meta device), the loaded model takes the place of its body, and the few tensors that are left are
read from the checkpoint, or tied to the embedding as the class says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from engine.architectures.projections import sibling
from engine.architectures.tensors import Tensors
from engine.architectures.vocabulary import UNEMBEDDINGS
from engine.checkpoints.transformers_library import class_named, first_line, silence
from engine.models.loading import input_device
from engine.models.spread_models import bring_along, is_spread
from engine.values.errors import EngineError

MAPPINGS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_MASKED_LM_MAPPING",
)  # fmt: skip
"""Transformers' lists of classes with a head, in the order in which they are looked through."""

ZERO_BUFFERS = ("final_logits_bias",)
"""Buffers of heads that are zero where a checkpoint does not keep them."""

OLD_ENDINGS = {"weight": "gamma", "bias": "beta"}
"""What old checkpoints call the parameters of norms."""


def with_head(model: Any, tensors: Tensors, name: str, *, is_masked: bool) -> Any:
    """Give the loaded model with its language-modelling head; the model itself where it has one already.

    Parameters
    ----------
    model : of transformers, loaded; it becomes a part of what is returned, and nothing of it is changed.
    tensors : of its checkpoint.
    name : of the model, for what is said where there is no head.
    is_masked : whether its tokens look both ways, so that it fills in masks.

    Raises
    ------
    EngineError : when its type has no such head, or its checkpoint was saved without.
    """
    if _unembedding(model) is not None:
        return model
    reasons = []
    silence()
    for chosen in _classes(model.config, is_masked):
        try:
            return _around(chosen, model, tensors)
        except EngineError as error:
            reasons.append(str(error))
        except Exception as error:  # whatever a class says of a configuration that is not for it
            reasons.append(f"{chosen.__name__}: {first_line(error)}")
    reason = next(iter(reasons), "transformers has no class with one for its type")
    raise EngineError(f"{name} has no language-modelling head to predict with ({reason}); its maps and spectra work")


def unembedding_of(model: Any) -> nn.Module:
    """Give the module of a model with a head that turns its last states into logits."""
    found = _unembedding(model)
    assert found is not None  # of a model that `with_head` gave
    return found


def _unembedding(model: Any) -> nn.Module | None:
    try:
        found = model.get_output_embeddings()
    except (NotImplementedError, AttributeError, TypeError):
        return None
    return found if isinstance(found, nn.Module) else None


def _classes(config: Any, is_masked: bool) -> Iterator[Any]:
    """Yield classes with a head that a model may have been saved from: the one it names, then those of its type."""
    found = [class_named(name, config) for name in getattr(config, "architectures", None) or ()]
    for mapping in [*MAPPINGS[2:], *MAPPINGS[:2]] if is_masked else MAPPINGS:
        entry = getattr(transformers, mapping).get(type(config), None)
        found += list(entry) if isinstance(entry, (tuple, list)) else [entry]
    yield from dict.fromkeys(each for each in found if hasattr(each, "get_output_embeddings"))


def _around(chosen: Any, model: Any, tensors: Tensors) -> Any:
    """Make a class with a head around a loaded model.

    Raises
    ------
    EngineError : when the class has no place for it, or tensors of the head are nowhere.
    """
    with torch.device("meta"):
        whole = chosen(model.config).eval()
    if _unembedding(whole) is None:
        raise EngineError(f"{chosen.__name__} writes no logits")
    place = _place(whole, model)
    own = [name for name, _ in _tensors(whole) if not any(name.startswith(f"{path}.") for path in place)]
    for path in place:
        parent, _, leaf = path.rpartition(".")
        setattr(whole.get_submodule(parent), leaf, model if len(place) == 1 else model.get_submodule(path))
    spread = is_spread(model)
    like = next(model.parameters())
    device = torch.device(input_device(model)) if spread else like.device
    missing = {name for name in own if not _fill(whole, name, tensors, like.dtype, device)}
    if missing:
        whole.tie_weights(missing_keys=set(missing))
    if spread:
        for path in filter(None, dict.fromkeys(name.rpartition(".")[0] for name in own)):
            missing -= {f"{path}.{name}" for name in bring_along(model, whole.get_submodule(path), device)}
    left = [name for name, tensor in _tensors(whole) if name in missing and tensor.is_meta]
    if left:
        raise EngineError(f"{left[0]} is not among the tensors that were read, nor tied to one of them")
    return whole


def _place(whole: Any, model: Any) -> tuple[str, ...]:
    """Say which parts of a class with a head the loaded model is: the one of its type, or all that it has by name.

    Raises
    ------
    EngineError : when there is no such place.
    """
    prefix = getattr(whole, "base_model_prefix", "")
    paths = [prefix, *(f"{prefix}.{name}" for name, _ in getattr(whole, prefix, nn.Module()).named_children())]
    paths += [name for name, _ in whole.named_children()]
    named = dict(whole.named_modules())
    for path in filter(None, paths):
        if type(named.get(path)) is type(model):
            return (path,)
    children = {name: type(child) for name, child in model.named_children()}
    if children and all(type(getattr(whole, name, None)) is kind for name, kind in children.items()):
        return tuple(children)
    raise EngineError(f"{type(whole).__name__} has no place for a {type(model).__name__}")


def _tensors(whole: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and buffers, those under several names under each."""
    yield from whole.named_parameters(remove_duplicate=False)
    yield from whole.named_buffers(remove_duplicate=False)


def _fill(whole: nn.Module, name: str, tensors: Tensors, dtype: torch.dtype, device: torch.device) -> bool:
    """Read a tensor of the head, in the dtype and to the place of the loaded model; False where it is not stored."""
    parent_name, _, leaf = name.rpartition(".")
    parent = whole.get_submodule(parent_name)
    stored = _stored(name, tensors.entries, parent is _unembedding(whole))
    if stored is not None:
        value = tensors.read(stored).to(device=device, dtype=dtype if dtype.is_floating_point else None)
        if value.shape != getattr(parent, leaf).shape:
            return False
    elif leaf in ZERO_BUFFERS:
        value = torch.zeros_like(getattr(parent, leaf), device=device, dtype=dtype)
    else:
        return False
    if leaf in dict(parent.named_parameters(recurse=False)):
        setattr(parent, leaf, nn.Parameter(value, requires_grad=False))
    else:
        parent.register_buffer(leaf, value, persistent=False)
    return True


def _stored(name: str, entries: Mapping[str, Any], is_unembedding: bool) -> str | None:
    """Find what the checkpoint calls a tensor of the head; unembeddings have had other names than they have now."""
    parent, _, leaf = name.rpartition(".")
    names = [name, sibling(parent, OLD_ENDINGS.get(leaf, leaf))]
    if is_unembedding:
        names += [f"{each}.{leaf}" for each in UNEMBEDDINGS]
    return next((each for each in names if each in entries), None)
