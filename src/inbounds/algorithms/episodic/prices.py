"""The price step of the practical presets: AdaGrad, in the units of the price itself. It needs no scale of the problem.

    G_i <- G_i + g_i^2   (from .01),     s_i = c max(1, u_i) / sqrt(G_i),     u_i <- max(0, u_i - s_i g_i)

where g_i is the value of margin i. The papers' fixed steps, of order 1 / (H sqrt K), fail where prices are above 3 or
margins small against H. So does c / sqrt(G_i): it goes c sqrt(k) far in k episodes, too slowly where a price is 4.
"""

from __future__ import annotations

import math

from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled

FIRST_SQUARE = 0.01
"""G at the start."""


@compiled
def adaptive_step(squares: Floats, i: int, margin: float, rate: float, price: float) -> float:
    """The step s of price i for the value of its margin; squares [I] are the G of the module, rate its c."""
    squares[i] += margin * margin
    return rate * max(price, 1.0) / math.sqrt(squares[i])
