"""One self-contained page: a problem, its optimum, the policy to browse, what bounds cost, and the proof.

Nothing is loaded from anywhere. What the page shows of every state is in it as arrays, compressed: the likeliest
action, every action with its probability where the policy randomises, and the share of time in 65,534 steps of a
logarithmic scale. `page.html` is the frame, in which the words and numbers that need no script are put.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.formats.labels import in_words, state_columns
from inbounds.problem.cmdp import CMDP
from inbounds.tables import html_table

_DECADES = 9.0
"""Of the share of time: states with less than 1e-9 of the most are shown as never."""


class Curve(NamedTuple):
    """The optimum as one bound moves, for the page."""

    constraint: int
    bounds: Floats  # [P]
    solutions: Sequence[Any]


def page(cmdp: CMDP, best: Any, curves: Sequence[Curve], title: str, names: Sequence[str], beside: bool) -> str:
    """The page as text, for `best` with its certificate and the curves of some constraints.

    `names` are those of the files of model, certificate and policy, which are `beside` the page, or could be.
    """
    layers, pairs = len(best.policy.probabilities) if cmdp.horizon else 1, cmdp.pairs
    labels = [pairs.state_label(state) for state in range(pairs.n_states)]
    actions = [in_words(label) for label in (pairs.action_labels or range(pairs.n_actions))]
    views, frontiers = [_view(cmdp, best)], []
    for curve in curves:
        constraint = cmdp.constraints[curve.constraint]
        upwards = np.argsort(curve.bounds)  # as the axis of the curve and the slider under it run, on either side
        solutions = [curve.solutions[place] for place in upwards]
        frontiers.append(
            {
                "name": constraint.name,
                "sign": constraint.in_words[:2],
                "present": constraint.bound,
                "bounds": [float(bound) for bound in curve.bounds[upwards]],
                "rewards": [found.reward for found in solutions],
                "prices": [float(found.prices[curve.constraint]) for found in solutions],
                "views": list(range(len(views), len(views) + len(solutions))),
            }
        )
        views += [_view(cmdp, found) for found in solutions]
    data = {
        "states": pairs.n_states,
        "layers": layers,
        "columns": [_column(name, values) for name, values in state_columns(labels).items()],
        "actions": actions,
        "decades": _DECADES,
        "most": _most_time(cmdp, best),
        "views": views,
        "frontiers": frontiers,
    }
    # Inside a script "</script>" would end it, wherever it stands.
    written = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(title),
        "HEAD": _head(cmdp, best, title),
        "TAIL": _tail(best, names, beside),
        "DATA": written,
    }
    text = files("inbounds.reports").joinpath("page.html").read_text("utf-8")
    for name, part in parts.items():
        text = text.replace(f"@@{name}@@", part, 1)
    return text


def _packed(values: Any) -> dict[str, str]:
    """An array as the page unpacks it."""
    array = np.ascontiguousarray(values)
    kind = {"uint8": "u1", "uint16": "u2", "uint32": "u4", "float64": "f8"}[array.dtype.name]
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": kind, "data": base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii")}


def _narrow(values: Any, largest: int) -> Any:
    return values.astype(np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.uint32)


def _column(name: str, values: list[Any]) -> dict[str, Any]:
    """A column of labels: its different values as words, by size if they are numbers, and the place of each state."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    distinct = sorted(set(values)) if numbers else list(dict.fromkeys(values))
    place = {value: number for number, value in enumerate(distinct)}
    places = np.array([place[value] for value in values])
    finite = numbers and all(-1e300 < value < 1e300 for value in distinct)
    return {
        "name": name,
        "words": [str(value) for value in distinct],
        "numbers": [float(value) for value in distinct] if finite else None,
        "places": _packed(_narrow(places, len(distinct))),
    }


def _time(cmdp: CMDP, solution: Any) -> Floats:
    """The share of time in each state, [L, S]."""
    return np.atleast_2d(cmdp.pairs.sum_by_state(solution.occupancy)) / cmdp.layers


def _most_time(cmdp: CMDP, best: Any) -> float:
    return float(_time(cmdp, best).max())


def _view(cmdp: CMDP, solution: Any) -> dict[str, Any]:
    """What a policy does in every state, as the page shows it."""
    pairs, rules = cmdp.pairs, np.atleast_2d(solution.policy.probabilities)
    chosen = np.array([pairs.best(rule)[1] for rule in rules])
    surest = np.take_along_axis(rules, chosen, axis=1)
    layer, pair = np.nonzero((surest < 1.0)[:, pairs.states] & (rules > 0.0))  # few: an optimum has few coins
    time = _time(cmdp, solution)
    share = np.maximum(time / _most_time(cmdp, solution), 1e-300)
    level = np.where(share > 10.0**-_DECADES, np.clip(np.rint(65535 + 65534 * np.log10(share) / _DECADES), 1, 65535), 0)
    return {
        "does": _packed(_narrow(pairs.actions[chosen], pairs.n_actions)),
        "time": _packed(level.astype(np.uint16)),
        "coins": {
            "at": _packed(_narrow(layer * pairs.n_states + pairs.states[pair], surest.size)),
            "does": _packed(_narrow(pairs.actions[pair], pairs.n_actions)),
            "with": _packed(rules[layer, pair]),
        },
    }


# --- what needs no script


_PRICES = "<p class=soft>A price is the reward gained per unit of bound relaxed (its Lagrange multiplier).</p>"
_MOVING = (
    "<h3>How prices move</h3><p class=soft>As one bound moves, and the others do not, all prices stay from ... to ...; "
    "just below and just above that its own price is another.</p>"
)


def _head(cmdp: CMDP, best: Any, title: str) -> str:
    criterion = criterion_of(cmdp)
    facts = [f"{cmdp.n_states:,} states", f"{cmdp.n_pairs:,} pairs of a state and an action"]
    facts += [f"{name} {value:,}" for name, value in cmdp.criterion.items() if name != "average"]
    proved = best.certificate.verdict if best.certificate is not None else "not proved in the time that was given"
    told = zip(cmdp.constraints, best.margins, best.prices, strict=True)
    rows = [(c.name, c.in_words, f"{margin:.6g}", f"{price:.6g}") for c, margin, price in told]
    table = html_table(("constraint", "bound", "margin", "price"), rows)
    moving = _MOVING + html_table(*best.sensitivities.table) if rows and best.sensitivities is not None else ""
    return (
        f"<h1>{html.escape(title)}</h1><p class=soft>{html.escape(', '.join(facts))}; a value is "
        f"{html.escape(criterion.value_in_words)}.</p>"
        f"<section><h2>The optimum</h2><p>Reward <b>{best.reward:.10g}</b>; no policy in bounds has more than "
        f"{best.upper_bound:.10g}. The policy is {html.escape(proved)}.</p>{table if rows else ''}"
        f"{_PRICES if rows else ''}{moving}</section>"
    )


def _tail(best: Any, names: Sequence[str], beside: bool) -> str:
    if best.certificate is None:
        return ""
    model, certificate, policy = map(html.escape, names)
    files = f"the model <b>{model}</b>, the proof <b>{certificate}</b> and the policy <b>{policy}</b>"
    where = (
        f"<p>Beside this page are {files}.</p>"
        if beside
        else "<p>The files are not beside this page. Written once more, by <code>inbounds report</code> with "
        f"<code>--beside</code> or by <code>ib.report</code> with <code>beside=True</code>, it comes with {files}.</p>"
    )
    return (
        f"<section><h2>The proof</h2><pre>{html.escape(str(best.certificate))}</pre>{where}"
        "<p>To check the proof against the model, in exact arithmetic:</p>"
        f"<pre>inbounds verify {model} {certificate}</pre>"
        "<p class=soft>The checker is one file of the standard library, inbounds/proofs/verify.py: copied anywhere, it "
        f"runs without the rest, <code>python verify.py {model} {certificate}</code>.</p></section>"
    )
