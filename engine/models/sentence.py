"""A sentence through a model, and the attention probabilities of any of its layers.

The model runs once, keeping what each attention module was called with; a layer's maps are then recomputed by calling
just that module again. So memory holds one layer's maps, not all layers'. Eager attention is asked for, because
only it returns the probabilities; the masks it is handed are explicit, so that a second call sees what the first saw.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from engine.models.outline import Anatomy
from engine.models.tokens import Tokenizer, visible
from engine.values.attention import AttentionMaps, Sentence
from engine.values.errors import EngineError
from engine.values.heads import Head

Call = tuple[tuple[Any, ...], dict[str, Any]]


def _first_line(error: BaseException) -> str:
    """Take the part of an error's text that fits one line."""
    return visible(str(error).strip().partition("\n")[0]) or type(error).__name__


class Reader:
    """A loaded model that reads sentences and gives attention maps.

    Parameters
    ----------
    anatomy : the model's layers and where their modules are.
    device : as torch names it.
    dtype : ``auto`` keeps the stored one.
    trust_remote_code : whether code that comes with the model may run; never without being asked for.
    """

    def __init__(self, anatomy: Anatomy, device: str, dtype: str, trust_remote_code: bool) -> None:
        outline = anatomy.outline
        self._outline = outline
        self.tokenizer = Tokenizer(Path(outline.directory), trust_remote_code)
        try:
            model = transformers.AutoModel.from_pretrained(
                outline.directory,
                attn_implementation="eager",
                dtype=dtype if dtype == "auto" else getattr(torch, dtype),
                local_files_only=True,
                trust_remote_code=trust_remote_code,
            )
            self._model: Any = model.to(device).eval()
        except torch.OutOfMemoryError as error:
            raise EngineError(
                f"{outline.name} does not fit on {device}; try --device cpu or --dtype bfloat16"
            ) from error
        except Exception as error:  # whatever a model's own loading code raises
            raise EngineError(
                f"{outline.name} cannot run a sentence: {_first_line(error)}; its spectra work all the same"
            ) from error
        self._device = device
        self._modules = {name: self._find(module.outline.module) for name, module in anatomy.modules.items()}
        self._sentence: Sentence | None = None
        self._calls: dict[Head, Call] = {}
        self._decoder_tokens: tuple[str, ...] = ()

    def _find(self, path: str) -> nn.Module:
        """Find a checkpoint's module in the loaded model, whose names may have a longer or shorter beginning."""
        modules: Mapping[str, nn.Module] = dict(self._model.named_modules())
        for name, module in modules.items():
            if (
                name
                and (name == path or name.endswith(f".{path}") or path.endswith(f".{name}"))
                and (name.count(".") >= path.count(".") - 2)
            ):
                return module
        raise EngineError(f"{self._outline.name}: the loaded model has no module {path}; attention maps cannot be read")

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
        sentence = self.tokenizer.read(text, self._outline.context)
        self._sentence = None
        self._calls.clear()
        ids = torch.tensor([sentence.ids], device=self._device)
        inputs: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "use_cache": False,
        }
        if getattr(self._model.config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = self._decoder_ids(sentence)
        with self._keeping_calls(breathe), torch.inference_mode():
            try:
                self._model(**inputs)
            except torch.OutOfMemoryError as error:
                raise EngineError(
                    f"{len(sentence.ids)} tokens do not fit on {self._device}; type a shorter sentence"
                ) from error
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                raise EngineError(
                    f"{self._outline.name} fails on this sentence: {_first_line(error)}; try another one"
                ) from error
        self._sentence = sentence
        return sentence

    def _decoder_ids(self, sentence: Sentence) -> Tensor:
        """Let the decoder of an encoder–decoder model read the same sentence, after its start token."""
        start = getattr(self._model.config, "decoder_start_token_id", None)
        ids = (sentence.ids if start is None else (start, *sentence.ids))[: len(sentence.ids)]
        self._decoder_tokens = self.tokenizer.texts(ids)
        return torch.tensor([ids], device=self._device)

    @contextmanager
    def _keeping_calls(self, breathe: Callable[[], None]) -> Iterator[None]:
        """Keep the arguments of every attention module's call while the model runs."""

        def keeper(name: Head) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
            def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                breathe()
                self._calls[name] = (args, kwargs)

            return keep

        hooks = [
            module.register_forward_pre_hook(keeper(name), with_kwargs=True) for name, module in self._modules.items()
        ]
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
        returned = self._call_again(self._modules[layer], *self._calls[layer])
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
                f"{self._outline.name} cannot show this layer's maps: {_first_line(error)}; its spectra still work"
            ) from error

    def _probabilities(self, layer: Head, returned: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Pick the attention probabilities (heads, queries, keys) out of what an attention module returns.

        They are its last four-dimensional tensor: T5 returns its position bias, of the same shape, before them.
        """
        found = [
            part
            for part in (returned if isinstance(returned, (tuple, list)) else ())
            if isinstance(part, Tensor) and part.ndim == 4
        ]
        heads = self._outline.layer(layer).heads
        if found and found[-1].shape[:2] == (1, heads):
            weights: np.ndarray[Any, np.dtype[np.float32]] = found[-1][0].float().cpu().numpy()
            slack = 0.05 if found[-1].dtype in (torch.bfloat16, torch.float16) else 1e-3
            if weights.min(initial=0.0) >= 0 and np.all(weights.sum(-1) <= 1 + slack):
                return weights
        raise EngineError(
            f"attention of type '{self._outline.model_type}' does not return its probabilities; "
            "its spectra work, its maps cannot be shown"
        )

    def mean_over_layers(self, stack: str, breathe: Callable[[], None]) -> AttentionMaps:
        """Average the maps over a stack's layers, head by head, holding one layer's maps at a time.

        Raises
        ------
        EngineError : when the layers differ in their number of heads, so that no head has a counterpart.
        """
        layers = self._outline.stack_layers(stack)
        if len({layer.heads for layer in layers}) > 1:
            raise EngineError("the layers differ in their number of heads, so there is no mean over layers by head")
        total: np.ndarray[Any, np.dtype[np.float64]] | None = None
        for layer in layers:
            breathe()
            maps = self.layer_maps(layer.name)
            total = maps.weights.astype(np.float64) if total is None else total + maps.weights
        if total is None:
            raise EngineError(f"{self._outline.name} has no stack '{stack}'")
        mean = (total / len(layers)).astype(np.float32)
        return AttentionMaps(maps.sentence, stack, None, maps.query_tokens, maps.key_tokens, mean)
