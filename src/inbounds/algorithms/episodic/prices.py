"""The price step of learners that do not plan with constraints: AdaGrad, which needs no scale of the problem.

    G_i <- G_i + g_i^2   (from .01),      u_i <- max(0, u_i - c g_i / sqrt(G_i)),      g_i: the value of margin i

The papers' fixed steps, of order 1 / (H sqrt K), fail where prices are above 3 or margins small against H.
"""

from __future__ import annotations

import math

from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled

FIRST_SQUARE = 0.01
"""G at the start."""


@compiled
def adagrad(prices: Floats, squares: Floats, margins: Floats, rate: float) -> None:
    """One step of the prices [I] by the values of the margins; squares [I] are the G of the module."""
    for i in range(prices.shape[0]):
        squares[i] += margins[i] * margins[i]
        prices[i] = max(prices[i] - rate * margins[i] / math.sqrt(squares[i]), 0.0)
