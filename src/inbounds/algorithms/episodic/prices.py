"""The price step of the practical presets: AdaGrad, which needs no scale of the problem.

    G_i <- G_i + g_i^2   (from .01),     u_i <- max(0, u_i - c g_i / sqrt(G_i)),     g_i: the value of margin i

The papers' fixed steps, of order 1 / (H sqrt K), fail where prices are above 3 or margins small against H. Where g_i is
a value of the model, c is relative to the price, c max(1, u_i): otherwise it takes all of 10^4 episodes to get to 4.
"""

from __future__ import annotations

import math

from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled

FIRST_SQUARE = 0.01
"""G at the start."""


@compiled
def adaptive_step(squares: Floats, i: int, margin: float, rate: float) -> float:
    """The step of price i for the value of its margin; squares [I] are the G of the module, rate its c."""
    squares[i] += margin * margin
    return rate / math.sqrt(squares[i])
