"""Hypothesis: the same examples every time (a failure is never a matter of luck), no deadline (timings vary).

Shrinking a failure can take minutes; ask for it with ``pytest --hypothesis-profile=shrink``.
"""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "shrink",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("inbounds", parent=settings.get_profile("shrink"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("inbounds")
