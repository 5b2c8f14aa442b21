"""Plans on an empirical model: the best policy, and the safest, within the limit of the run that asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inbounds.criteria import criterion_of
from inbounds.errors import Infeasible, Stopped
from inbounds.exact.feasibility import Slater, slater_within
from inbounds.exact.limits import TIME, Limits
from inbounds.exact.methods import Watch, best_mixture
from inbounds.exact.solution import Solution, assemble
from inbounds.problem.cmdp import CMDP
from inbounds.problem.pieces import OutOfTime
from inbounds.problem.thoughts import T, Thought, thought

_SMALL = 400
"""Pairs, up to which the linear program is the fastest solver of empirical models; beyond, the bundle is."""


def about(model: CMDP, think: Callable[[Thought], T]) -> T:
    """A thought about a model. How its chains are solved from then on is a part of what it comes to."""
    criterion = criterion_of(model)
    before = criterion.ways

    def with_ways(own: Thought) -> tuple[T, Any]:
        after = before
        try:
            found = think(own)
            if not own.hurried:
                after = criterion.ways
            return found, after
        finally:
            criterion.ways = after

    found, criterion.ways = thought(with_ways)
    return found


def best_of(model: CMDP) -> Solution:
    """The solution of an empirical model; raises `Infeasible` without any. It goes on from its last round."""
    method = "lp" if model.n_pairs <= _SMALL else "auto"

    def think(own: Thought) -> Solution | Infeasible:
        watch, limits = Watch(own.begun), Limits.of(own.seconds, None)
        try:
            found, by = best_mixture(model, method, limits=limits, watch=watch)
            if found.status == TIME and not own.hurried:
                raise OutOfTime
        except Infeasible as infeasible:
            if infeasible.diagnosis.complete or own.hurried:
                return infeasible
            raise OutOfTime from None
        except BaseException as error:
            if watch.state[0] is not None:
                own.keep(watch.state[0])
            if isinstance(error, Stopped) and error.status == TIME:
                raise OutOfTime from None
            raise
        return assemble(model, found, method=by)

    found = about(model, think)
    if isinstance(found, Infeasible):
        raise found
    return found


def safest_of(model: CMDP) -> Slater:
    """The largest margin that a policy of an empirical model keeps in every constraint at once, and that policy."""

    def think(own: Thought) -> Slater:
        found = slater_within(model, Limits.of(own.seconds, None))
        if found.status == TIME and not own.hurried:
            raise OutOfTime
        return found

    return about(model, think)


def at_once(model: CMDP, call: Callable[[], T]) -> T:
    """What a model is asked that is never cut, such as what a policy is worth; it may be one too many for the limit."""
    return about(model, lambda own: call())
