"""Every answer and every bound on tiny models of all criteria, against an exact linear program of the tests' own."""

from __future__ import annotations

import numpy as np

import inbounds as ib

from .judge import judge
from .models import CRITERIA, random_model
from .workers import Report, Verdict, campaign

COUNT = 2_000


def draw(seed: int, index: int) -> tuple[ib.CMDP, str]:
    rng = np.random.default_rng([seed, index, 1])
    return random_model(rng, CRITERIA[index % 3]), "all"


def verdict(model: ib.CMDP, what: str) -> Verdict:
    return judge(model)


def run(count: int, seed: int, seconds: float) -> Report:
    return campaign(draw, verdict, count, seed, seconds, "rational")
