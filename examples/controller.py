"""A controller that needs nothing but Python: it reads a policy in JSON and draws an action for each state.

python examples/controller.py policy.json '["dry", 3]' 7      the state, as JSON; with a finite horizon, and the stage

Of a mixture, `load` draws one of the policies. Load it once when an episode begins, and keep to it until its end."""

import json
import random
import sys


def load(path, rng=random):
    """The rules of a policy: for each state a list of (action, probability); with stages, one such list a stage."""
    try:
        with open(path, encoding="utf-8-sig") as stream:
            policy = json.load(stream)
        if policy["kind"] == "mixture":
            policy = rng.choices(policy["policies"], policy["weights"])[0]
        if (policy["kind"], policy["version"]) == ("policy", 1):
            return {label(entry["state"]): entry["choose"] for entry in policy["states"]}
    except (ValueError, LookupError, TypeError):  # it is no JSON, or has something else in it
        pass
    raise ValueError(f"{path} is no policy in JSON (version 1), as policy.save writes into a file called .json")


def label(written):
    """JSON has no tuples: a list stands for one."""
    return tuple(map(label, written)) if isinstance(written, list | tuple) else written


def act(rules, state, stage=None, rng=random):
    """Draw an action in a state, by its label, as a tuple or a list; with a finite horizon, at a stage 0, 1, ..."""
    if label(state) not in rules:
        raise ValueError(f"the policy has no state {state!r}")
    choices = rules[label(state)]
    stages = range(len(choices)) if isinstance(choices[0][-1], list) else ()
    if stage not in (stages or [None]):
        raise ValueError(f"the policy has {len(stages) or 'no'} stages, counted from 0; found stage {stage}")
    choices = choices[stage] if stages else choices
    return label(rng.choices([action for action, _ in choices], [share for _, share in choices])[0])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.tracebacklimit = 0  # of what is wrong, its one sentence
    print(act(load(sys.argv[1]), json.loads(sys.argv[2]), *map(int, sys.argv[3:])))
