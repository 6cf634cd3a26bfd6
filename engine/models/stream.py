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
    new = (
        states.to(whole).reshape(-1, *[1] * (whole.ndim - 2), states.shape[-1]).expand_as(whole).clone()
    )  # some add in place
    if isinstance(result, (tuple, list)):
        return type(result)((new, *result[1:]))
    return new


class Stream:
    """The blocks of the stack that a model predicts from.

    Parameters
    ----------
    blocks : in any order; how often and when they are called is seen.
    """

    def __init__(self, blocks: tuple[nn.Module, ...]) -> None:
        self._blocks = blocks

    @contextmanager
    def watching(self, position: int, tokens: int) -> Iterator[list[Tensor]]:
        """Keep one token's states, (1, width): before the first block, and after every block, as they are called.

        Raises
        ------
        EngineError : when the blocks hand on something else than one state for each token.
        """
        kept: list[Tensor] = []
        lost = False

        def keep(x: Any) -> None:
            nonlocal lost
            state = at_token(x, position, tokens)
            lost = lost or state is None
            if state is not None:
                kept.append(state)

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not kept:
                keep(args[0] if args else kwargs.get("hidden_states"))

        def after(block: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            keep(first_tensor(result))

        with ExitStack() as stack:
            for block in self._blocks:
                stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
                stack.callback(block.register_forward_hook(after).remove)
            yield kept
        if lost or len(kept) < 2 or len({state.shape for state in kept}) > 1:
            raise EngineError(
                "what this model's blocks hand on is not one residual stream; it can be followed no further"
            )

    @contextmanager
    def ending_with(self, calls: int, states: Tensor) -> Iterator[None]:
        """Put states, (sentences, width), in the place of what the last of so many calls of blocks gives."""
        with self._counting(lambda call, result: replaced(result, states) if call == calls else None):
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

        with ExitStack() as stack:
            for block in self._blocks:
                stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
            yield

    @contextmanager
    def _counting(self, change: Callable[[int, Any], Any]) -> Iterator[None]:
        """Change what blocks give, by the number of the call from one."""
        call = 0

        def after(block: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
            nonlocal call
            call += 1
            return change(call, result)

        with ExitStack() as stack:
            for block in self._blocks:
                stack.callback(block.register_forward_hook(after).remove)
            yield

    def inside(self) -> Iterator[nn.Module]:
        """Yield the blocks."""
        yield from dict.fromkeys(self._blocks)
