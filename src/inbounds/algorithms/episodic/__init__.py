"""Learners of finite-horizon problems, one file per published algorithm, and the parts that they share.

* `frame`: what a learner knows beforehand, and its units
* `rules`: what algorithms differ in, as data, and their settings
* `playing`: an episode step by step, and the policy of a run
* `model`: what was seen, the model that it makes, radii and bonuses
* `learner`: the loop. It plans by `inbounds.exact.box_plan`, and sweeps by `inbounds.numerics.boxes`

All depart from their papers in this. Counts are pooled where stages are alike. A pair never tried ends the episode with
the largest values (for the wary ones the least margins), in the place of equal chances to lead anywhere: then the first
plans are in bounds. Signals are learned as they are seen. H is W, the most that a value can be, wherever a paper bounds
values by it. Models take starts to be as frequent as they were seen, with no radius: so theorems are claimed only where
there is one start; and of a user's own step, whose signals may be random, only where the paper has such. All practical
presets take the mixture of the second half, radii without logarithms, and a radius of signals only where two
observations of a pair differed.

In the files, of a problem: S, A, H, I are its states, actions, steps and constraints; transitions, reward r and margins
g_i are unknown unless they say otherwise. Of a run: K episodes; a pair has n visits, frequencies p of next states, and
means rh, gh_i of its signals. J is the value of a policy, J_r~ that for a reward r~; delta how often a bound may fail.
"""
