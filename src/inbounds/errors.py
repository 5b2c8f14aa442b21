"""The two ways a call can refuse: the input is wrong, or no policy is in bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inbounds.arrays import Floats


class InvalidInput(ValueError):
    """The input is wrong. The message names the culprit, says what was found, and what to do."""


class Infeasible(Exception):
    """No policy is in bounds.

    Attributes
    ----------
    slater : float
        The largest margin that some policy keeps in every constraint at once, in the user's units; negative here.
        Values are normalised by (1 - discount).
    prices : array [K]
        Non-negative weights that sum to 1. With `value_function` they are the proof: under these weights the
        combined margin of *every* policy is negative.
    value_function : array [S]
        The best achievable value, from each state, of the margins combined with `prices`, normalised. Its mean over
        the initial distribution is below zero.
    conflict : tuple of str
        Names of the constraints with a positive weight in the proof: they cannot hold together (or, when there is
        only one, it cannot hold at all).
    diagnosis : str
        The reason in words.
    """

    def __init__(
        self, slater: float, prices: Floats, value_function: Floats, conflict: tuple[str, ...], diagnosis: str
    ) -> None:
        super().__init__(slater, prices, value_function, conflict, diagnosis)
        self.slater = slater
        self.prices = prices
        self.value_function = value_function
        self.conflict = conflict
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return self.diagnosis
