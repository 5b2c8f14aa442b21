"""One self-contained page: a problem, its optimum, the policy to browse, what bounds cost, and the proof.

Nothing is loaded from anywhere. What the page shows of every state is in it as arrays, compressed: the likeliest
action, every action with its probability where the policy randomises, and the share of time in 65,534 steps of a
logarithmic scale. `page.html` is the frame, in which the words and numbers that need no script are put.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import ROUNDING, Evaluation
from inbounds.exact.frontier import Frontier, least_height
from inbounds.exact.optimum import OPTIMAL
from inbounds.exact.sensitivity import Sensitivities
from inbounds.exact.solution import Solution
from inbounds.formats.labels import label_in_words, state_columns
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.problem.policy import Policy
from inbounds.tables import escaped, html_table, outwards, printable, so_many

BESIDE = "Beside this page are"
"""What a page says that came with files; no other does."""

_DECADES = 9.0
"""Of the share of time: states with less than 1e-9 of the most are shown as never."""

_SAME = 1e-3
"""Of the length of a curve: a point so close to the present bound is no other stop of the slider."""


class MovedBounds(NamedTuple):
    """What is known of the optimum as bounds move."""

    found: list[Frontier]
    notes: list[str]  # sentences about bounds that need no curve, and about all of them
    missing: list[str]  # curves, or parts of them, that a limit left out


def page(
    cmdp: CMDP,
    best: Solution,
    moving: Sensitivities | None,
    curves: MovedBounds,
    other: tuple[Policy, Evaluation] | None,
    title: str,
    names: Sequence[str],
    beside: bool,
    cut: tuple[str, Sequence[str]],
) -> str:
    """The page as text, for `best` with its certificate, the curves of some constraints, and perhaps another policy.

    `moving` is how prices move, if that is known. `names` are those of the files of model, certificate and policy,
    which are `beside` the page, or could be; `cut`, why something is missing, and what.
    """
    layers, pairs = len(best.policy.probabilities) if cmdp.horizon else 1, cmdp.pairs
    labels = [pairs.state_label(state) for state in range(pairs.n_states)]
    actions = [label_in_words(label) for label in (pairs.action_labels or range(pairs.n_actions))]
    views, frontiers = [_view(cmdp, best.policy, best)], []
    shown = [best.policy]  # of each view
    if other is not None:
        views.append(_view(cmdp, *other))
        shown.append(other[0])
    for curve in curves.found:
        place = cmdp.constraint_number(curve.constraint)
        constraint = cmdp.constraints[place]
        upwards = np.argsort(curve.bounds)  # as the axis of the curve and the slider under it run, on either side
        apart = np.abs(curve.bounds[upwards] - constraint.bound)
        upwards = upwards[apart > _SAME * np.ptp([*curve.bounds, constraint.bound])]
        if not len(upwards):
            continue
        solutions = [curve.solutions[point] for point in upwards]
        frontiers.append(
            {
                "name": printable(constraint.name),
                "sign": constraint.in_words[:2],
                "present": constraint.bound,
                "bounds": [float(bound) for bound in curve.bounds[upwards]],
                "rewards": [found.reward for found in solutions],
                "prices": [float(price) for price in curve.own_prices[upwards]],
                "height": _height([best, *solutions]),
                "said": [_said(cmdp, found) for found in solutions],
                "matters": float(curve.matters_from),
                "cut": curve.status != OPTIMAL,
                "views": list(range(len(views), len(views) + len(solutions))),
                # Where on this picture the other policy is: what it keeps, and what it earns.
                "other": None if other is None else [_kept(constraint, other[1].margins[place]), other[1].reward],
            }
        )
        views += [_view(cmdp, found.policy, found) for found in solutions]
        shown += [found.policy for found in solutions]
    data = {
        "states": pairs.n_states,
        "layers": layers,
        "columns": [_column(name, values) for name, values in state_columns(labels).items()],
        "actions": actions,
        "used": _used(cmdp, shown),
        "reward": best.reward,
        "decades": _DECADES,
        "views": views,
        "other": None if other is None else 1,
        "frontiers": frontiers,
    }
    # Inside a script "</script>" would end it, wherever it stands.
    written = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "TITLE": escaped(title),
        "HEAD": _head(cmdp, best, moving, title, cut) + ("" if other is None else _other(cmdp, best, *other)),
        "NOTES": "".join(f"<p>{escaped(note)}</p>" for note in curves.notes),
        "TAIL": _tail(best, names, beside),
        "DATA": written,
    }
    text = files("inbounds.reports").joinpath("page.html").read_text("utf-8")
    return re.sub("@@([A-Z]+)@@", lambda place: parts[place[1]], text)  # at once: a name may look like such a place


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
        "words": [printable(str(value)) for value in distinct],
        "numbers": [float(value) for value in distinct] if finite else None,
        "places": _packed(_narrow(places, len(distinct))),
    }


def _view(cmdp: CMDP, policy: Policy, judged: Evaluation) -> dict[str, Any]:
    """What a policy does in every state, as the page shows it, and the share of time there."""
    pairs, rules = cmdp.pairs, np.atleast_2d(policy.probabilities)
    chosen = np.array([pairs.best(rule)[1] for rule in rules])
    surest = np.take_along_axis(rules, chosen, axis=1)
    layer, pair = np.nonzero((surest < 1.0)[:, pairs.states] & (rules > 0.0))  # few: an optimum has few coins
    time = np.atleast_2d(pairs.sum_by_state(judged.occupancy)) / cmdp.layers
    share = np.maximum(time / time.max(), 1e-300)
    level = np.where(share > 10.0**-_DECADES, np.clip(np.rint(65535 + 65534 * np.log10(share) / _DECADES), 1, 65535), 0)
    return {
        "does": _packed(_narrow(pairs.actions[chosen], pairs.n_actions)),
        "time": _packed(level.astype(np.uint16)),
        "most": float(time.max()),
        "coins": {
            "at": _packed(_narrow(layer * pairs.n_states + pairs.states[pair], surest.size)),
            "does": _packed(_narrow(pairs.actions[pair], pairs.n_actions)),
            "with": _packed(rules[layer, pair]),
        },
    }


def _used(cmdp: CMDP, policies: Sequence[Policy]) -> list[int]:
    """The actions that some policy of the page takes somewhere: each has one colour, whatever is shown."""
    taken = np.zeros(cmdp.pairs.n_actions, dtype=bool)
    for policy in policies:
        taken[cmdp.pairs.actions[np.any(np.atleast_2d(policy.probabilities) > 0.0, axis=0)]] = True
    return [int(action) for action in np.flatnonzero(taken)]


def _counted(cmdp: CMDP, count: int) -> str:
    """So many states; with stages, states at their stages."""
    stages = "" if not cmdp.horizon else " at its stage" if count == 1 else " at their stages"
    return f"{so_many(count, 'state')}{stages}"


def _kept(constraint: Constraint, margin: float) -> float:
    """The value of a constraint's signal under a policy with this margin."""
    return float(constraint.bound + constraint.outward * margin)


def _height(points: Sequence[Solution]) -> float:
    """How high the axis of the optimum is, at least."""
    return least_height(*([getattr(p, name) for p in points] for name in ("reward", "upper_bound", "status")))


def _said(cmdp: CMDP, found: Solution) -> str:
    """What is known of the policy at a stop of the slider."""
    coins = found.policy.coins
    where = "never randomises" if not coins else f"randomises in {_counted(cmdp, coins)}"
    if found.certificate is None:
        return f"{where}; in bounds up to rounding, without a proof"
    return f"{where}; {'proved to be in bounds' if found.in_bounds else 'NOT proved to be in bounds'}"


# --- what needs no script


_PRICES = "<p class=soft>A price is the reward gained per unit of bound relaxed (its Lagrange multiplier).</p>"
_MOVING = (
    "<h3>How prices move</h3><p class=soft>As one bound moves, and the others do not, all prices stay from ... to ...; "
    "just below and just above that, its own price is that of the last two columns (-: no end, or none proved).</p>"
)


def _tidy(margin: float, scale: float) -> str:
    """What is zero up to rounding is zero here; the proof has its digits."""
    return f"{0.0 if abs(margin) <= ROUNDING * scale else margin:.6g}"


def _head(cmdp: CMDP, best: Solution, moving: Sensitivities | None, title: str, cut: tuple[str, Sequence[str]]) -> str:
    criterion = criterion_of(cmdp)
    facts = [so_many(cmdp.n_states, "state"), f"{so_many(cmdp.n_pairs, 'pair')} of a state and an action"]
    facts += [f"{name} {value:,}" for name, value in cmdp.criterion.items() if name != "average"]
    proved = best.certificate.verdict if best.certificate is not None else "not proved in the time that was given"
    told = zip(cmdp.constraints, best.margins, best.margin_scales, best.prices, strict=True)
    rows = [(c.name, c.in_words, _tidy(margin, scale), f"{price:.6g}") for c, margin, scale, price in told]
    table = html_table(("constraint", "bound", "margin", "price"), rows)
    prices = _MOVING + html_table(*moving.table) if rows and moving is not None else ""
    most = outwards(best.upper_bound, up=True, digits=10)
    why, missing = cut
    notice = f"<p class=cut>{html.escape(why)}. Missing: {escaped('; '.join(missing))}.</p>" if why else ""
    return (
        f"<h1>{escaped(title)}</h1><p class=soft>{html.escape(', '.join(facts))}; a value is "
        f"{html.escape(criterion.value_in_words)}.</p>{notice}"
        f"<section><h2>The optimum</h2><p>Reward <b>{best.reward:.10g}</b>; no policy in bounds has more than "
        f"{most}. The policy is {html.escape(proved)}.</p>{table if rows else ''}"
        f"{_PRICES if rows else ''}{prices}</section>"
    )


def _other(cmdp: CMDP, best: Solution, policy: Policy, judged: Evaluation) -> str:
    """Another policy, such as the rule in use, beside the best: what each is worth, and where they differ."""
    rows = [("reward", f"{best.reward:.6g}", f"{judged.reward:.6g}")]
    told = zip(best.constraints, best.margins, judged.margins, judged.margin_scales, strict=True)
    rows += [(f"margin of {c.name} ({c.in_words})", _tidy(ours, s), _tidy(theirs, s)) for c, ours, theirs, s in told]
    apart = best.policy.compare(policy, best)
    header, most = apart.table
    count = _counted(cmdp, len(apart))
    if cmdp.horizon:
        states, stages = cmdp.n_states, cmdp.layers
        count = f"{len(apart):,} of {stages * states:,} states at their stages ({states:,} states, {stages} stages)"
    where = (
        f"<h3>Where they differ</h3><p>In {count}, and for {apart.share:.2%} of the time of the best. The "
        "filter <code>differs</code> below has all of them; these weigh most:</p>"
        f"{html_table((*header[:-2], 'the best', 'the other'), most, words=len(header))}"
    )
    return (
        "<section><h2>The other policy</h2><p>The policy that was given, beside the best. It is "
        f"{escaped(judged.verdict)}.</p>{html_table(('', 'the best', 'the other'), rows)}"
        f"{where if len(apart) else '<p>It does the same in every state.</p>'}</section>"
    )


def _tail(best: Solution, names: Sequence[str], beside: bool) -> str:
    if best.certificate is None:
        listed = " and ".join(f"<b>{escaped(name)}</b>" for name in names)
        return f"<section><h2>The files</h2><p>{BESIDE} {listed}; there is no proof.</p></section>" if beside else ""
    model, certificate, policy = map(escaped, names)
    checked = html.escape(" ".join(shlex.quote(f"./{name}" if name[0] == "-" else name) for name in names[:2]))
    said = "".join(f"<p>{escaped(words)}</p>" for words in (best.certificate.verdict, *best.certificate.remarks))
    files = f"the model <b>{model}</b>, the proof <b>{certificate}</b> and the policy <b>{policy}</b>"
    where = (
        f"<p>{BESIDE} {files}.</p>"
        if beside
        else "<p>The files are not beside this page. Written once more, by <code>inbounds report</code> with "
        f"<code>--beside</code> or by <code>ib.report</code> with <code>beside=True</code>, it comes with {files}.</p>"
    )
    return (
        f"<section><h2>The proof</h2>{html_table(*best.certificate.table)}{said}{where}"
        "<p>To check the proof against the model, in exact arithmetic:</p>"
        f"<pre>inbounds verify {checked}</pre>"
        "<p class=soft>The checker is one file of the standard library, inbounds/proofs/verify.py: copied anywhere, it "
        f"runs without the rest, <code>python verify.py {checked}</code>.</p></section>"
    )
