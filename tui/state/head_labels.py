"""What heads are called that clearly do one thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.values.filters import SHORT_LABELS
from engine.values.heads import Head


@dataclass(frozen=True)
class HeadLabels:
    """The labels of a model's heads, as far as they are known.

    Attributes
    ----------
    by_head : of those that have one.
    is_known : whether they have been worked out.
    """

    by_head: Mapping[Head, str] = field(default_factory=dict)
    is_known: bool = False

    def of(self, head: Head) -> str:
        """Give a head's label; nothing where it has none.

        Examples
        --------
        >>> head = Head("decoder", 1, 0)
        >>> labels = HeadLabels({head: "induction"}, is_known=True)
        >>> labels.of(head), labels.short(head), labels.behind(head), labels.behind(Head("decoder", 1, 1))
        ('induction', 'ind', ' · induction', '')
        """
        return self.by_head.get(head, "")

    def short(self, head: Head) -> str:
        """Give a head's label as the tree writes it; nothing where it has none."""
        return SHORT_LABELS.get(self.of(head), self.of(head))

    def behind(self, head: Head) -> str:
        """Give a head's label, to be put behind its name."""
        return f" · {self.of(head)}" if head in self.by_head else ""
