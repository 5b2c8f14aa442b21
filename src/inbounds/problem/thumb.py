"""A user's own rule, by labels, as probabilities over pairs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.errors import InvalidInput
from inbounds.inputs import asked, function_of, positional_arguments, reported_number, required_arguments, shown
from inbounds.problem.pairs import Pairs, pairs_of


def probabilities_of_rule(problem: Any, rule: Any) -> Floats:
    """The probabilities [n], or [H, n], of ``ib.Policy.from_rule(problem, rule)``, whose arguments these are."""
    pairs, stages = pairs_of(problem), problem.shape[0] if len(problem.shape) == 2 else None
    found = np.zeros(problem.shape)
    if isinstance(rule, list):
        if stages is None or len(rule) != stages:
            wanted = "has no stages" if stages is None else f"has {stages} stages"
            raise InvalidInput(f"the rule is a list of {len(rule)}, one for each stage; the problem {wanted}")
        for stage, own in enumerate(rule):
            _fill(found[stage], pairs, _asked(own, pairs, (), "state"), f"stage {stage}, ")
    elif callable(rule) and not isinstance(rule, Mapping) and _asks_for_stage(rule, stages is not None):
        if stages is None:
            raise InvalidInput("rule(state, stage) asks for the stage; the problem has none: give rule(state)")
        for stage in range(stages):
            _fill(found[stage], pairs, _asked(rule, pairs, (stage,), "state, stage"), f"stage {stage}, ")
    else:
        forms = ("state",) if stages is None else ("state", "state, stage")
        _fill(found if stages is None else found[0], pairs, _asked(rule, pairs, (), *forms), "")
        if stages is not None:
            found[1:] = found[0]
    return found


def _asks_for_stage(rule: Any, there_are_stages: bool) -> bool:
    """Whether a function has two arguments that must be given; or, with stages, a second one called stage."""
    return required_arguments(rule) == 2 or (there_are_stages and [*positional_arguments(rule)][1:2] == ["stage"])


def _asked(rule: Any, pairs: Pairs, stage: tuple[int, ...], *forms: str) -> Callable[[Hashable], Any]:
    """What the rule says of a state, by its label; the forms in which a function may be called."""
    if isinstance(rule, Mapping):
        strangers = [state for state in rule if state not in pairs.state_numbers]
        if strangers:
            raise InvalidInput(f"the rule has a state {strangers[0]!r}, which the problem has not")
        missing = [state for state in pairs.state_numbers if state not in rule]
        if missing:
            more = f", nor for {len(missing) - 1:,} others" if len(missing) > 1 else ""
            raise InvalidInput(f"the rule has no action for state {missing[0]!r}{more}; every state needs one")
        return rule.__getitem__
    if not callable(rule):
        raise InvalidInput(
            f"a rule must be a function of the state, or a dict from state to action, found {shown(rule)}"
        )
    function_of(rule, "rule", *forms)
    at_stage = f", stage {stage[0]}" if stage else ""

    def ask(state: Hashable) -> Any:
        return asked(rule, (state, *stage), "the rule of a policy", f"state {state!r}{at_stage}")

    return ask


def _fill(row: Floats, pairs: Pairs, ask: Callable[[Hashable], Any], stage: str) -> None:
    """Write the probabilities of one stage into `row` [n]."""
    for label, state in pairs.state_numbers.items():
        said, own = ask(label), pairs.actions_of(state)
        where = f"{stage}state {label!r}"
        shares = said if isinstance(said, Mapping) else {_hashable(said, where): 1.0}
        for action, share in shares.items():
            if action not in own:
                raise InvalidInput(f"{where} has no action {action!r}; it has {', '.join(map(repr, own))}")
            row[own[action]] = reported_number(share, f"{where}, action {action!r}: the probability")


def _hashable(action: Any, where: str) -> Hashable:
    try:
        hash(action)
    except TypeError:
        raise InvalidInput(
            f"{where}: the rule gave {action!r}; it must be an action, or {{action: probability}}"
        ) from None
    return action  # type: ignore[no-any-return]
