"""Attacks on the library, of which every one must end in a right answer or in a refusal with a name: ``make fuzz``.

    python -m tests.fuzz [--only rational,metamorphic] [--count 100] [--seconds 60] [--seed 1]

Every module here with a function ``run(count, seed, seconds)`` is an attack. It tries `count` cases drawn from `seed`,
stops early after `seconds`, and returns a `workers.Report`; ``COUNT`` is how many cases ``make fuzz`` asks it for. The
cases run in processes that can be killed, because a hang is a failure too. A model that fails is made smaller while it
fails in the same way, and kept in ``regressions/``, from where tests/test_fuzz.py replays it for ever.
"""
