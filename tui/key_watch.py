"""What happens to every key before anything else does: it is counted, and waits until the one before it is done.

So does a mouse button or wheel behind keys.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from itertools import islice, takewhile

from textual import events
from textual.app import ScreenStackError
from textual.errors import NoWidget
from textual.message_pump import MessagePump
from textual.widgets import Input

from tui.handled import for_a_while, reach, upwards
from tui.parts import Parts
from tui.pasting import BehindEscape

Typed = events.Key | events.Paste
"""What comes of a keyboard."""

Pressed = (
    events.MouseDown
    | events.MouseUp
    | events.MouseScrollDown
    | events.MouseScrollUp
    | events.MouseScrollLeft
    | events.MouseScrollRight
)
"""What comes of a mouse and does something."""

PATIENCE = 0.5
"""Seconds for which keys wait for the model once the views are there; one that is downloaded takes longer."""

TOGETHER = 32
"""Keys that go on together at most: however many have been typed, what the first did is drawn before the last."""

AT_ANY_TIME = ("quit", "tree", "leave", "sentence", "help", "redraw", "suspend_process")
"""Actions that need no model, and wait for none."""

NOT_OVER = ("jump", "command_palette")
"""Actions that come before all widgets, but leave what is over the explorer be."""

LOOK = 0.02
"""Seconds between two looks at whether what a key waits for has come."""

LOOKS = 500
"""How often that is looked at before the next key follows all the same."""

RESTS = 5
"""Looks one after the other at which nobody worked, so that it will not come by itself."""

AT_ONCE = 0.5
"""Seconds within which a key comes that is typed ahead, without a look at what the one before it did."""

HOPS = 8
"""Times that what a key set off is followed up to the application, as a message may set off others."""


LEAVING = ("quit", "app.quit", "leave", "leave_at_once")
"""What is done however early it is."""


class KeyWatch(Parts):
    """An application that does one key after the other; what comes before its views, or a model, waits for them.

    The toolkit hands a key from widget to widget through their queues. Where it moves the focus in the end, or opens a
    screen, keys typed fast would long be on their way to what had the focus before, which takes letters for commands.
    What is pasted is held like a key. Letters for a field, and the same key again and again, go on together: what they
    do is drawn once, or every few. A mouse button or wheel behind keys waits in its turn for them, and meets what is
    there by then; where the mouse goes meanwhile is of no account.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: deque[Typed | Pressed] = deque()
        self._passing: deque[Typed | Pressed] = deque()
        self._is_early = True
        self._for_model: list[events.Key] = []
        self._awaits_model = False
        self._following: asyncio.Task[None] | None = None
        self._is_hurried = False
        self._last_key = ""
        self._last_came = 0.0

    @property
    def is_typed_to(self) -> bool:
        """Whether keys have been typed that are not done yet."""
        return self._following is not None or bool(self._passing) or bool(self._held)

    async def on_event(self, event: events.Event) -> None:
        """Do a key, or hold it where it comes too early; a button or wheel only behind keys."""
        if isinstance(event, events.MouseMove) and not event.is_forwarded and self.is_typed_to:
            return
        if isinstance(event, Typed | events.MouseEvent) and not self.screen_stack:
            return  # what comes while the program puts its screens away has nothing to go to
        is_free = isinstance(event, Pressed) and not self.is_typed_to
        if is_free or event.is_forwarded or not isinstance(event, Typed | Pressed):
            await super().on_event(event)
        elif self._passing and event is self._passing[0]:
            await self._do(event)
        elif not self._is_early and not self.is_typed_to:
            self._take_note(event)
            self._held.extend(self._read(event))
            self._passing.append(self._held.popleft())
            await self._do(self._passing[0])
        elif self._is_early and isinstance(event, events.Key) and self._leaves(event.key):
            await super().on_event(event)
        else:
            self._is_hurried |= self._hurries(event)
            self._take_note(event)
            self._held.extend(self._read(event) if self._is_early else (event,))

    def _read(self, event: Typed | Pressed) -> tuple[Typed | Pressed, ...]:
        """Take a key behind an escape character for what has a meaning now: held with alt, or both one by one."""
        if not isinstance(event, BehindEscape):
            return (event,)
        bound = self.screen.active_bindings
        if event.key in bound:
            return (events.Key(event.key, None),)
        is_in_field = isinstance(self.focused, Input) and event.in_field.key in bound
        return (event.in_field,) if is_in_field else event.apart

    async def _do(self, event: Typed | Pressed) -> None:
        """Count a key, take away what was said since the last one, and hand it on."""
        receiver = self._receiver(event)
        if isinstance(event, Typed):
            self.keys_pressed += 1
            self.key_line.hush()
            self.put_away_what_stays()
        if isinstance(event, events.Key) and self._is_for_model(event):
            self._for_model.append(event)
        else:
            if isinstance(event, events.Key) and self._is_leaving(event.key):
                self._for_model.clear()
            await super().on_event(event)
        self._passing.popleft()
        if not self._passing:
            self._following = asyncio.create_task(self._follow(event, receiver))

    def _receiver(self, event: Typed | Pressed) -> MessagePump:
        """Find what a key, or a button or wheel of the mouse, goes to."""
        if isinstance(event, Pressed):
            with contextlib.suppress(NoWidget):
                return self.screen.get_widget_at(event.x, event.y)[0]
        return self.focused or self.screen

    def _take_note(self, event: Typed | Pressed) -> None:
        """Remember which key came last, and when."""
        self._last_key, self._last_came = event.key if isinstance(event, events.Key) else "", event.time

    def _hurries(self, event: Typed | Pressed) -> bool:
        """Say whether a key, or the mouse, is of a person who sees that the key before waits, and does not want to."""
        is_seen = isinstance(event, Pressed) or event.time - self._last_came > AT_ONCE
        is_urging = isinstance(event, events.Key) and (event.key == self._last_key or self._is_leaving(event.key))
        return self.is_waiting_with_act and (is_seen or is_urging)

    def _leaves(self, key: str) -> bool:
        """Say whether a key ends the program, as it does at any time; a letter only where nothing came before it."""
        return self._is_leaving(key) and (not self._held or len(key) > 1)

    def _is_leaving(self, key: str) -> bool:
        """Say whether a key ends the program, or what is open."""
        active = self.screen.active_bindings.get(key)
        return active is not None and active.binding.action in LEAVING

    def await_model(self, is_awaited: bool) -> None:
        """Keep keys from now on for the model that has been chosen, or drop them where it does not open."""
        self._awaits_model = is_awaited
        self._for_model.clear()

    def _is_for_model(self, event: events.Key) -> bool:
        """Say whether a key is meant for the model that has been chosen, which is not there yet.

        So is all that the opening screen does not take while it waits, and then what needs a model; text is text. What
        comes behind it is kept, too, as it may be text for that model, or be meant for what that leads to; but keys
        that are no letters leave at any time.
        """
        if not self._awaits_model or isinstance(self.focused, Input):
            return False
        if self._for_model and (event.is_printable or not self._is_leaving(event.key)):
            return True
        active = self.screen.active_bindings.get(event.key)
        if len(self.screen_stack) > 1:
            return self.is_ready and active is None
        is_taken = active is not None and (active.node is self.screen or active.binding.action in AT_ANY_TIME)
        return not is_taken

    def do_early_keys(self) -> None:
        """Do what was typed too early, if that has not begun yet."""
        if self._is_early:
            self.do_kept_keys()

    def do_kept_keys(self) -> None:
        """Do what was typed too early, if that has not begun yet, and what was typed for the model that is there."""
        is_waiting = self._is_early or (self._following is None and not self._passing)
        self._held.extendleft(reversed(self._for_model))
        self.await_model(False)
        self._is_early = False
        if is_waiting:
            self._hand_on(1)

    async def do_next(self, event: events.Key) -> None:
        """Do a key that the one being done has become, before those that were typed behind that."""
        if self.is_typed_to:
            self._held.appendleft(event)
        else:
            await self.on_event(event)

    def forget_leaving(self) -> None:
        """Drop what was typed too early to go back, which on a screen that opens by itself would end the program."""
        bindings = self.screen.active_bindings
        leaving = {key for key, active in bindings.items() if active.binding.action == "leave"}
        self._held = deque(each for each in self._held if not isinstance(each, events.Key) or each.key not in leaving)

    def _hand_on(self, count: int) -> None:
        """Have the next keys done, in their turn among the application's other messages, unless they wait."""
        self._following = None
        if self._is_early:
            return
        if self._held:
            self._held.extendleft(reversed(self._read(self._held.popleft())))
        for _ in range(min(count, len(self._held))):
            self._passing.append(self._held.popleft())
        for event in self._passing:
            self.post_message(event)

    async def _follow(self, event: Typed | Pressed, receiver: MessagePump) -> None:
        """Wait until a key is done, and hand on those that may follow it."""
        try:
            await for_a_while(self._await_done(receiver))
            if await self._await_act():
                await for_a_while(self._await_done(self.focused or self.screen))
            is_where_it_was = receiver is (self.focused or self.screen)
        except ScreenStackError:
            self._following = None
            if not self._exit:  # between two screens, and not being left
                self._hand_on(1)
            return
        first = islice(self._held, TOGETHER)
        together = takewhile(lambda each: is_where_it_was and _go_together(event, each, receiver), first)
        self._hand_on(max(len(list(together)), 1))

    async def _await_done(self, receiver: MessagePump) -> None:
        """Wait until the part that a key went to and all above it have handled it, then those that have the focus now.

        What they told each other meanwhile has been handled, too.
        """
        known: MessagePump | None = None
        for _ in range(HOPS):
            parts = [each for each in upwards(receiver) if receiver is not known or each.message_queue_size]
            if not parts:
                return
            for part in parts:
                await reach(part)
            if self.is_ready:
                await self.views.has_opened.wait()
            known, receiver = receiver, self.focused or self.screen

    async def _await_act(self) -> bool:
        """Wait for what a key asked for and cannot be done yet.

        Where that takes too long, or nobody works at it, later keys do not wait.

        Returns
        -------
        Whether there was anything to wait for.
        """
        if not self.is_waiting_with_act:
            self._is_hurried = False
            return False
        rests = 0
        for _ in range(LOOKS):
            rests = rests + 1 if self.is_idle else 0
            if self._is_hurried or not self.is_waiting_with_act:
                return True
            if rests == RESTS:
                break
            await asyncio.sleep(LOOK)
        self._is_hurried = True
        return True


def _go_together(one: Typed | Pressed, other: Typed | Pressed, receiver: MessagePump) -> bool:
    """Say whether a key can follow another, which left the focus where it was, before that is done."""
    if not isinstance(one, events.Key) or not isinstance(other, events.Key) or isinstance(other, BehindEscape):
        return False
    return one.key == other.key or (isinstance(receiver, Input) and one.is_printable and other.is_printable)
