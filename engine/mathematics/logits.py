"""What chance gives for changes of logits: the same changes, dealt to the tokens of the vocabulary at random."""

from __future__ import annotations

import torch
from torch import Tensor


def root_mean_square(values: Tensor) -> Tensor:
    """Give ``√(Σx²/n)`` along the last dimension, of the n numbers that are finite; NaN where none is.

    Examples
    --------
    >>> root_mean_square(torch.tensor([[2.0, -2.0, float("inf")], [0.0, 0.0, 0.0]])).tolist()
    [2.0, 0.0]
    """
    values = values.double()
    finite = values.isfinite()
    squares = torch.where(finite, values, 0.0).square()
    return (squares.sum(-1) / finite.sum(-1)).sqrt()


class ShuffledChanges:
    """The changes of all logits, dealt to other tokens: token t gets that of token t + s, for every s.

    A token's probability would become ``p_t(s) = e^(z_t + δ_{t+s}) / Σ_j e^(z_j + δ_{j+s})``, tokens counted modulo the
    vocabulary: as much changes as did, but with no regard to which token it is of. The sums for all s are one cyclic
    correlation, which takes Fourier transforms. Tokens with a logit (vocabulary,) that is not finite take no part.

    Attributes
    ----------
    logit_change : the root mean square of all changes: what the logit of a token drawn at random changes by.
    """

    def __init__(self, before: Tensor, after: Tensor) -> None:
        before, after = before.detach().cpu().double(), after.detach().cpu().double()
        self._takes_part = before.isfinite() & after.isfinite()
        changes = (after - before)[self._takes_part]
        self.logit_change = float(root_mean_square(changes))
        if not len(changes):
            return
        self._probabilities = before[self._takes_part].softmax(0)  # of each token before
        self._factors = (changes - changes.max()).exp()  # of its share, but for what they have in common
        spectrum = torch.fft.rfft(self._probabilities).conj() * torch.fft.rfft(self._factors)
        self._sums: Tensor = torch.fft.irfft(spectrum, n=len(changes))  # of all shares then, for each s

    def change(self, token: int) -> float:
        """Give the root mean square, over all s, of what a token's probability changes by; NaN if it takes no part.

        Examples
        --------
        >>> round(ShuffledChanges(torch.zeros(2), torch.tensor([3.0, 1.0]).log()).change(1), 6)  # it becomes 3/4 or 1/4
        0.25
        """
        if not bool(self._takes_part[token]):
            return float("nan")
        place = int(self._takes_part[:token].sum())
        own = self._probabilities[place] * self._factors.roll(-place)
        sums = self._sums.maximum(own)  # of which it is one part, so that rounding cannot make them less
        return float(root_mean_square(own / sums - self._probabilities[place]))
