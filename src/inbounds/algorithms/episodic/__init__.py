"""Learners of finite-horizon problems, one file per published algorithm, and the parts that they share.

Of what a learner may see, and in which units: `frame`. How it plays, and the policy of a run: `playing`. What it has
seen, and the model that it makes of it: `model`, `confidence`. One backward sweep for all signals: `sweeps`; the best
policy in bounds by column generation around it: `planning`. The next policy, by a plan or by a step: `doubling`,
`one_sweep`. What algorithms differ in, as data: `rules`, `settings`. The loop: `learner`.

All of them depart from their papers in this. Counts are pooled where stages are alike. A pair never tried ends the
episode with the largest values (or the least margins, of those that are wary), in the place of "leads anywhere with
equal chance" or a bonus: then the first plans are in bounds. Means of signals are learned as they are seen. H is W, the
most that a value can be, wherever a paper bounds values by it; S, A, H, K, I are its states, actions, steps, episodes
and constraints, delta its failure probability, and a pair has n visits, chances p, means rh and gh.

All practical presets take the mixture of the second half, radii without logarithms (`confidence`), and a radius of
signals only where two observations differed.
"""
