"""Hypothesis: the same examples every time (a failure is never a matter of luck), no deadline (timings vary)."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "inbounds",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("inbounds")
