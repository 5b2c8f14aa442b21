"""The episodic learners with the updates of another implementation, against what that one found.

    python benchmarks/episodic_reference.py [--jobs 2] [--algorithms opt-dual,opdop] [--problems media,queue]

`episodic_reference.csv` is of an implementation with presets of its own: a root in every radius, prices that see the
bonus, AdaGrad and nothing more, and for OptPess-PrimalDual the Slater constant. Here these rules run in this library's
loop, where two correct implementations agree in the mean: gap and violation after 10^4 episodes, seeds 0 to 19 (0 to 3
on the hazard grid), within 3 sd sqrt(1/m + 1/n) + .002 with m and n seeds. The file has the deviation of gaps; that of
violations is the one found here. Both are of the exact mixture of the policies played in the second half, as a judge
sees it; of Truly no-regret they are of the last policy. `episodic.py --losses` has the library's own presets.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import inbounds as ib
from episodic import EPISODES, PROBLEMS, length, references
from episodic_problems import settings_for
from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.rules import Published
from inbounds.algorithms.loop import run_on_samples
from inbounds.arrays import Floats
from inbounds.studies.regret import episode_optimum, judge_for, judged_values, watching
from inbounds.tables import text_table

ROOT = dict(root=0.1, linear=1.0)


class OptDual(ib.OptDual):
    def _published(self, frame: Frame) -> Published:
        return hopeful(super()._published(frame))


class OptPrimalDual(ib.OptPrimalDual):
    def _published(self, frame: Frame) -> Published:
        return hopeful(super()._published(frame))


class OptPessPrimalDual(ib.OptPessPrimalDual):
    """Queues, which the Slater constant over sqrt(k) tightens."""

    def _published(self, frame: Frame) -> Published:
        paper = hopeful(super()._published(frame))
        assert self.slater is not None
        return paper._replace(stepping=paper.stepping._replace(queued=True), spare=frame.slack(self.slater))


class OPDOP(ib.OPDOP):
    """A bonus by visits alone."""

    def _published(self, frame: Frame) -> Published:
        paper = hopeful(super()._published(frame))
        return paper._replace(radii=paper.radii._replace(root=0.0, of_visits=self.root))


class TrulyNoRegret(ib.TrulyNoRegret):
    def _published(self, frame: Frame) -> Published:
        return hopeful(super()._published(frame))


class DOPE(ib.DOPE):
    """A box of the whole radii, and a bonus for the successors seen alone."""

    def _published(self, frame: Frame) -> Published:
        paper = super()._published(frame)
        radii = paper.radii._replace(root=self.root, linear=self.linear, of_box=0.5, unseen=0.0)
        return paper._replace(radii=radii)


def hopeful(paper: Published) -> Published:
    """Prices step by values with their bonus, by AdaGrad alone, and a policy steps for the prices as they are."""
    steps = paper.stepping._replace(relative=False, plain=False, ahead=False, lowest_log=-200.0)
    return paper._replace(radii=paper.radii._replace(unseen=0.0), stepping=steps)


def its_settings(name: str, cmdp: ib.CMDP) -> Any:
    """Those of the other implementation; where none are named here they are the library's preset."""
    match name:
        case "opt-cmdp":
            return ib.OptCMDP.practical(**ROOT)
        case "opt-cmdp-bonus":
            return ib.OptCMDPBonus.practical(**ROOT)
        case "uc-cfh":
            return ib.UCCFH.practical(**ROOT)
        case "conrl":
            return ib.CONRL.practical(root=0.1, linear=0.0)
        case "dope":
            ours: Any = settings_for(name, cmdp)
            return DOPE.practical(safe=ours.safe, slack=ours.slack)
        case "opt-dual":
            return OptDual.practical(**ROOT, price_step=1.0)
        case "opt-primal-dual":
            return OptPrimalDual.practical(**ROOT, price_step=1.0, policy_step=100.0)
        case "optpess-primal-dual":
            return OptPessPrimalDual.practical(**ROOT, price_step=1.0, slater=ib.slater(cmdp, scaled=True).value)
        case "opdop":
            return OPDOP.practical(root=0.1, linear=0.0, price_step=0.3, policy_step=100.0)
        case "truly-no-regret":
            return TrulyNoRegret.practical(**ROOT, price_step=0.03, policy_step=100.0, tau=0.1)
    return settings_for(name, cmdp)


def found_values(asked: tuple[str, str]) -> tuple[Floats, Floats]:
    """Gaps and violations by seed, of an algorithm on a problem."""
    algorithm, name = asked
    cmdp = ib.zoo.make(name)
    settings, samples = its_settings(algorithm, cmdp), EPISODES * length(cmdp)
    counted = range(EPISODES - 1 if algorithm == "truly-no-regret" else EPISODES // 2, EPISODES)
    values = []
    for seed in range(4 if name == "hazard_grid" else 20):
        judge = judge_for(cmdp, settings, samples, counted)
        run_on_samples(cmdp.simulator(), settings, samples, seed, advance=watching(judge, settings))
        values.append(judged_values(judge, cmdp.simulator(), settings, samples).mean(axis=0))
    rewards, *margins = np.transpose(values)
    return episode_optimum(cmdp, settings) - rewards, np.maximum(-np.min(margins, axis=0), 0.0)


def main() -> None:
    reference = references()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", default=",".join(dict.fromkeys(name for name, _ in reference)))
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    asked = [(one, name) for one in given.algorithms.split(",") for name in given.problems.split(",")]
    rows, off = [], 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for one, found in zip(asked, pool.map(found_values, asked), strict=True):
            cells, n = [], len(found[0])
            for measure, values in zip(("gap", "violation"), found, strict=True):
                spread = reference[one]["deviation"] if measure == "gap" else float(values.std(ddof=1))
                expected, allowed = reference[one][measure], 3.0 * spread * math.sqrt(2.0 / n) + 0.002
                beyond = bool(abs(values.mean() - expected) > allowed)
                off += beyond
                cells += [f"{values.mean():.4f}" + " !" * beyond, f"{expected:.4f}"]
            rows.append((*one, *cells))
            print(*rows[-1], flush=True)
    print(text_table(("algorithm", "problem", "gap", "its", "violation", "its"), rows))
    print(f"!: beyond the tolerance, {off} of {2 * len(rows)} cells")


if __name__ == "__main__":
    main()
