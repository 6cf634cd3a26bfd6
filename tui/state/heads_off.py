"""The heads that are switched off while sentences are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.values.heads import Head, Off
from tui.state.session import Session


class HeadsOff:
    """Switches heads off and on.

    Parameters
    ----------
    session : which holds what is off.
    key : names the key that switches a head off.
    all_on : names the key that switches all on.
    is_comparing : whether there is a second model, of which maps can be different with all heads on.
    """

    def __init__(
        self, session: Session, key: Callable[[], str], all_on: Callable[[], str], *, is_comparing: bool
    ) -> None:
        self._session = session
        self._key = key
        self._all_on = all_on
        self._is_comparing = is_comparing

    @property
    def now(self) -> Off:
        """What is off."""
        return self._session.shown.off

    def switch(self, head: Head | None) -> str:
        """Switch a head off, or on again; say in a line why that cannot be, with the key for what can be, or nothing.

        None is the model as a whole.
        """
        if head is None:
            return f"the model as a whole cannot be switched off; {self._key()} switches single heads, choose one"
        if head.is_layer:
            return f"{head} is a whole layer; {self._key()} switches single heads, :off {head} all of its heads"
        self.put((head,), is_off=head not in self.now.heads)
        return ""

    def put(self, heads: Sequence[Head], *, is_off: bool) -> str:
        """Have heads off, or on, whatever they were, and say what is off then, what is switched just now first."""
        meant = set(heads)
        others = tuple(each for each in self.now.heads if each not in meant)
        wanted = (*others, *heads) if is_off else others
        if not self.now.heads and not is_off:
            return self.said
        if set(wanted) == set(self.now.heads):
            named = f"{heads[0]} is" if len(heads) == 1 else "these heads are"
            return f"{named} {'off' if is_off else 'on'} already"
        again = [str(each) for each in self.now.heads if each in meant]
        self._change(replace(self.now, heads=wanted))
        if is_off:
            return self._said(replace(self.now, heads=(*heads, *others)))
        return f"{f'{again[0]} is' if len(again) == 1 else f'{len(again)} heads are'} on again; {self.said}"

    @property
    def said(self) -> str:
        """What is off now."""
        return self._said(self.now)

    def _said(self, off: Off) -> str:
        """Say what is off, in an order of its own."""
        return f"{off}; {self._all_on()} switches all on" if off.heads else "all heads are on"

    def switch_on(self) -> str:
        """Switch all heads on again; say in a line where they are."""
        if not self.now.heads:
            return "all heads are on"
        self._change(replace(self.now, heads=()))
        return ""

    def change_way(self) -> str:
        """Switch heads off by their mean over the sentence's tokens, or by zero again; say so where none is off."""
        self._change(replace(self.now, by_mean=not self.now.by_mean))
        if self.now.heads:
            return ""
        return f"no head is off; {self._key()} switches one off, now by {'its mean' if self.now.by_mean else 'zero'}"

    def _change(self, off: Off) -> None:
        """Switch other heads off; without any there is no difference of maps, unless to another model's."""
        is_difference = self._session.shown.difference and (bool(off.heads) or self._is_comparing)
        self._session.change(off=off, difference=is_difference)
