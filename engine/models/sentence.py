"""A sentence through a model, and the attention probabilities of any of its layers.

The model runs once, keeping what each attention module was called with; a layer's maps are then recomputed by calling
just that module again. So memory holds one layer's maps, not all layers'. Eager attention is asked for, because
only it returns the probabilities; the masks it is handed are explicit, so that a second call sees what the first saw.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from engine.models.load import first_line
from engine.models.maps import MapReader
from engine.models.outline import Anatomy
from engine.models.placing import placed
from engine.models.source import Loaded
from engine.models.witness import Observation, find_module, observe, returned_probabilities
from engine.values.attention import AttentionMaps, Sentence
from engine.values.errors import EngineError
from engine.values.heads import Head

PROBE_LENGTH, PROBED_TOKENS = 9, 50_000
"""Tokens of a row with which the cutting into heads is checked, and from how many of the vocabulary they are drawn."""

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Reader(MapReader):
    """A loaded model that reads sentences and gives attention maps.

    Parameters
    ----------
    anatomy : the model's layers and where their modules are.
    loaded : the model itself.
    """

    def __init__(self, anatomy: Anatomy, loaded: Loaded) -> None:
        super().__init__(anatomy.outline)
        self.words = loaded.words
        self.model: Any = loaded.model
        self._device = loaded.device
        self._placed = placed(self.model, anatomy)
        named = dict(self.model.named_modules())
        self.modules: dict[Head, nn.Module] = {}
        for name, module in self._placed.items():
            found = find_module(named, module.outline.module)
            assert found is not None  # placed says so
            self.modules[name] = found
        self._sentence: Sentence | None = None
        self._calls: dict[Head, Call] = {}
        self._decoder_tokens: tuple[str, ...] = ()

    def read(self, text: str, breathe: Callable[[], None]) -> Sentence:
        """Tokenize a sentence and run the model on it, unless it is the one that was read last.

        Parameters
        ----------
        text : the sentence.
        breathe : called before every attention module; it may raise to give up.

        Raises
        ------
        EngineError : when the sentence is empty, or the model fails on it.
        """
        if self._sentence is not None and self._sentence.text == text:
            return self._sentence
        sentence = self.words.read(text, self._outline.context)
        self._sentence = None
        self._calls.clear()
        ids = torch.tensor([sentence.ids], device=self._device)
        inputs: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "use_cache": False,
        }
        if getattr(self.model.config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = self._decoder_ids(sentence)
        with self._keeping_calls(breathe), torch.inference_mode():
            try:
                self.model(**inputs)
            except torch.OutOfMemoryError as error:
                raise EngineError(
                    f"{len(sentence.ids)} tokens do not fit on {self._device}; type a shorter sentence"
                ) from error
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                raise EngineError(
                    f"{self._outline.name} fails on this sentence: {first_line(error)}; try another one"
                ) from error
        self._sentence = sentence
        return sentence

    def _decoder_ids(self, sentence: Sentence) -> Tensor:
        """Let the decoder of an encoder–decoder model read the same sentence, after its start token."""
        start = getattr(self.model.config, "decoder_start_token_id", None)
        ids = (sentence.ids if start is None else (start, *sentence.ids))[: len(sentence.ids)]
        self._decoder_tokens = self.words.texts(ids)
        return torch.tensor([ids], device=self._device)

    @contextmanager
    def _keeping_calls(self, breathe: Callable[[], None]) -> Iterator[None]:
        """Keep the arguments of every attention module's call while the model runs."""

        def keeper(names: list[Head]) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
            waiting = iter(names)  # a module that layers share is called for one after the other

            def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                breathe()
                name = next(waiting, None)
                if name is not None:
                    self._calls[name] = (args, kwargs)

            return keep

        sharing: dict[nn.Module, list[Head]] = {}
        for name, module in self.modules.items():
            sharing.setdefault(module, []).append(name)
        hooks = [module.register_forward_pre_hook(keeper(names), with_kwargs=True) for module, names in sharing.items()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def layer_maps(self, layer: Head) -> AttentionMaps:
        """Recompute the maps of all heads of one layer for the sentence that was read last.

        Raises
        ------
        EngineError : when the layer was not run, or its module does not return probabilities.
        """
        if self._sentence is None:
            raise EngineError("no sentence has been read; type one")
        if layer not in self._calls:
            raise EngineError(f"{layer} took no part in reading this sentence; it has no attention map")
        returned = self._call_again(self.modules[layer], *self._calls[layer])
        weights = self._probabilities(layer, returned)
        queries = self._sentence.tokens if layer.stack == "encoder" else self._decoder_tokens or self._sentence.tokens
        keys = self._sentence.tokens if layer.stack == "cross" else queries
        if weights.shape[1:] != (len(queries), len(keys)):
            raise EngineError(
                f"{self._outline.model_type}: {layer} returns maps of {weights.shape[1]}×{weights.shape[2]} "
                f"for {len(queries)}×{len(keys)} tokens; attn-tui cannot show them"
            )
        return AttentionMaps(self._sentence, layer.stack, layer.layer, queries, keys, weights)

    def _call_again(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an attention module once more: without a cache, which holds this very sentence, and for its weights."""
        signature = inspect.signature(module.forward)
        call = signature.bind(*args, **kwargs)
        for name, value in call.arguments.items():
            if isinstance(value, transformers.Cache):
                call.arguments[name] = None
        if "output_attentions" in signature.parameters:
            call.arguments["output_attentions"] = True
        try:
            with torch.inference_mode():
                return module(*call.args, **call.kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise EngineError(
                f"{self._outline.name} cannot show this layer's maps: {first_line(error)}; its spectra still work"
            ) from error

    def _probabilities(self, layer: Head, returned: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Pick the attention probabilities (heads, queries, keys) out of what an attention module returns."""
        found = returned_probabilities(returned, 1, self._outline.layer(layer).heads)
        if found is not None:
            weights: np.ndarray[Any, np.dtype[np.float32]] = found[0].float().cpu().numpy()
            return weights
        raise EngineError(
            f"attention of type '{self._outline.model_type}' does not return its probabilities; "
            "its spectra work, its maps cannot be shown"
        )

    def observe(self, breathe: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads two rows of random tokens, for `prove`."""
        generator = torch.Generator().manual_seed(0)
        count = self.model.get_input_embeddings().weight.shape[0]
        padding = getattr(self.model.config, "pad_token_id", None)
        tokens = [token for token in range(min(count, PROBED_TOKENS)) if token != padding]
        places = torch.randint(len(tokens), (2, PROBE_LENGTH), generator=generator)
        ids = torch.tensor(tokens)[places].to(self._device)
        return observe(self.model, self._placed, ids, breathe)
