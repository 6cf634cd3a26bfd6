"""The residual stream between a loaded model's blocks: watched at one token, and put in from outside.

Nothing is asked of an architecture but that its blocks are called one after the other and hand on what they add to.
What a model does after its last block (a norm, a head, a cap) is its own code: it is run by putting other states in
the place of what the last block gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from engine.values.errors import EngineError

Before = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Any]
After = Callable[[nn.Module, tuple[Any, ...], Any], Any]


def blocks_around(named: Mapping[str, nn.Module], paths: list[str]) -> tuple[nn.Module, ...]:
    """Find the blocks of a stack: all that stand beside those with attention, in the lists that these are in.

    Parameters
    ----------
    named : a loaded model's modules by name.
    paths : the names of the stack's attention modules.
    """
    lists = []
    for path in paths:
        parts = path.split(".")
        first = next((place for place, part in enumerate(parts) if part.isdigit()), None)
        if first is not None:
            lists.append(".".join(parts[:first]))
    return tuple(block for name in dict.fromkeys(lists) for block in named[name].children())


def at_token(x: Any, position: int, tokens: int) -> Tensor | None:
    """Take one token's numbers, (1, width), of what a module reads or writes for one sentence; None where it has none.

    Models keep a sentence as (1, tokens, width), (tokens, 1, width) or (tokens, width), which is one after the other.
    """
    if not isinstance(x, Tensor) or x.ndim not in (2, 3) or x.numel() != tokens * x.shape[-1]:
        return None
    return x.detach().reshape(tokens, -1)[position : position + 1].clone()  # some models add to it in place


def first_tensor(result: Any) -> Any:
    """Take what a block hands on, which may be the first of several things."""
    return result[0] if isinstance(result, (tuple, list)) and result else result


def replaced(result: Any, states: Tensor) -> Any:
    """Put other states, (sentences, width), in the place of those in what a module gives, one token each."""
    whole = first_tensor(result)
    each = states.to(whole).reshape(-1, *[1] * (whole.ndim - 2), states.shape[-1])
    new = each.expand_as(whole).clone()  # some models add to it in place
    return type(result)((new, *result[1:])) if isinstance(result, (tuple, list)) else new


class ResidualStream:
    """The stream of the stack that a model predicts from.

    Attributes
    ----------
    blocks : in any order; how often and when they are called is seen.
    """

    def __init__(self, blocks: tuple[nn.Module, ...]) -> None:
        self.blocks = tuple(dict.fromkeys(blocks))

    @contextmanager
    def watching(self, position: int, tokens: int) -> Iterator[list[Tensor]]:
        """Keep one token's states, (1, width): before the first block, and after every block, as they are called.

        Raises
        ------
        EngineError : when the blocks hand on something else than one state for each token.
        """
        seen: list[Tensor] = []
        is_lost = False

        def keep(x: Any) -> None:
            nonlocal is_lost
            state = at_token(x, position, tokens)
            is_lost = is_lost or state is None
            if state is not None:
                seen.append(state)

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not seen:
                keep(args[0] if args else kwargs.get("hidden_states"))

        def after(block: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            keep(first_tensor(result))

        with self._hooked(before, after):
            yield seen
        if is_lost or len(seen) < 2 or len({state.shape for state in seen}) > 1:
            raise EngineError(
                "what this model's blocks hand on is not one residual stream; it can be followed no further"
            )

    @contextmanager
    def ending_with(self, calls: int, states: Tensor) -> Iterator[None]:
        """Put states, (sentences, width), in the place of what the last of so many calls of blocks gives."""
        call = 0

        def after(block: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
            nonlocal call
            call += 1
            return replaced(result, states) if call == calls else None

        with self._hooked(None, after):
            yield

    @contextmanager
    def beginning_with(self, state: Tensor) -> Iterator[None]:
        """Put a state, (1, width), in the place of what the first block reads, in every sentence."""
        is_first = True

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            nonlocal is_first
            if not is_first:
                return None
            is_first = False
            if args:
                return (replaced(args[0], state), *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": replaced(kwargs["hidden_states"], state)}

        with self._hooked(before, None):
            yield

    @contextmanager
    def _hooked(self, before: Before | None, after: After | None) -> Iterator[None]:
        with ExitStack() as stack:
            for block in self.blocks:
                if before is not None:
                    stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
                if after is not None:
                    stack.callback(block.register_forward_hook(after).remove)
            yield
