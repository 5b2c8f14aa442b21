"""Learners of finite-horizon problems, one file per published algorithm, and the parts that they share.

The parts, one file each:

* `frame`: what a learner knows beforehand, its units, and the settings that all have
* `playing`: an episode step by step, what it leaves behind, and the policy of a run
* `counts`: what was seen: successors and signals; the model that it makes
* `confidence`: how far that model may be off: the papers' radii by name, practical ones, the bonus
* `sweeps`: one backward sweep for all signals, and the forward pass
* `planning`: the best policy in bounds, by column generation around the sweeps
* `doubling`: the loop of those that plan when a count has doubled
* `one_sweep`, `prices`: the loop of those that do not, and the step of their prices
* `judging`: a hook for what no learner may compute
"""
