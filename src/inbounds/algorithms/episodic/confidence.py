"""How far an empirical model may be off: the papers' radii by name, and practical ones.

A radius of a chance p after n visits is  min( root sqrt(p (1 - p) / n) + linear / (n - less),  flat / sqrt(n) ).

The bonus of a value is span * width, where the width of a row is `of_box` times the sum of its radii (over the
successors seen, and `unseen` of the others), plus `of_visits` / sqrt(n + ridge), and `most` at most. The papers take H
for the span. Practical presets take that of the current policy's values to go, which is what lets one setting do for
every problem, and radii without logarithms. The linear part matters more than the root: it also widens the
box towards successors never seen, without which one run in ten gives up a good action for ever.

L is the papers' logarithm. "Code": read in the authors' or in a re-implementer's code; "memory": not checked.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from inbounds.numerics.compiled import compiled


class Confidence(NamedTuple):
    """The constants of the radii, of the bonus (none where `of_box` and `of_visits` are 0), and of the signals."""

    root: float = 0.0
    linear: float = 0.0
    flat: float = math.inf
    less: float = 0.0
    of_box: float = 0.0
    unseen: float = 0.0
    of_visits: float = 0.0
    ridge: float = 0.0
    most: float = math.inf
    signal_root: float = 0.0  # times the range of a signal
    signal_linear: float = 0.0
    always: bool = True  # False: signals have a radius only once two observations of a pair differed


def practical(root: float, linear: float) -> Confidence:
    """No logarithms; the width is half the sum of the radii of successors seen (derived here)."""
    return Confidence(root, linear, of_box=0.5, signal_root=root, signal_linear=linear, always=False)


def bernstein(log: float, signal_log: float = 0.0) -> Confidence:
    """Efroni et al. 2020, and DOPE: 2 sqrt(p (1-p) L / n) + 14 L / (3 n) [code]; signals sqrt(L' / n) [memory]."""
    root, linear = 2.0 * math.sqrt(log), 14.0 * log / 3.0
    return Confidence(root, linear, of_box=1.0, unseen=math.inf, signal_root=math.sqrt(signal_log))


def bennett(log: float, linear: float, less: float = 0.0) -> Confidence:
    """min( sqrt(2 p (1-p) l / n) + linear l / (n - less), sqrt(l / 2n) ); signals are known.

    UC-CFH: 7/3 and 1 [code for UCFH, which it extends]. Optimistic-GMBL: 2/3 and 0 [its algorithm box].
    """
    return Confidence(math.sqrt(2.0 * log), linear * log, flat=math.sqrt(0.5 * log), less=less)


def hoeffding(log: float, most: float = math.inf) -> Confidence:
    """No box, but a width of min( sqrt(L / n), most ). CONRL: at most 1 [memory]; OptPess-LP [its algorithm box]."""
    return Confidence(of_visits=math.sqrt(log), most=most)


@compiled
def radius(confidence: Confidence, chance: float, n: float) -> float:
    """Of one successor's chance after n >= 1 visits; 1 where the formula says nothing yet."""
    if n <= confidence.less:
        return 1.0
    linear = confidence.linear / (n - confidence.less)
    return min(confidence.root * math.sqrt(chance * (1.0 - chance) / n) + linear, confidence.flat / math.sqrt(n))
