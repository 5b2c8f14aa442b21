"""A machine that wears out: run it, or repair it, with at most a tenth of the steps spent on repairs.

python examples/machine.py
"""

from typing import Any

import inbounds as ib


def wear(condition: int, action: str) -> list[tuple[int, float]]:
    if action == "repair":
        return [(0, 1.0)]
    return [(condition, 0.7), (min(condition + 1, 3), 0.3)]


def machine(repairs: float, **criterion: Any) -> ib.CMDP:
    return ib.build(
        start=0,
        actions=lambda condition: ["run", "repair"] if condition > 0 else ["run"],
        transitions=wear,
        reward=lambda condition, action: (3.0 - condition) if action == "run" else 0.0,
        constraints=[ib.Constraint(lambda condition, action: action == "repair", at_most=repairs, name="repairs")],
        **criterion,
    )


discounted = machine(0.1, discount=0.95)
best = ib.solve(discounted)
print(f"reward {best.reward:.4f} a step; one more repair in a hundred steps is worth {best.prices[0] / 100:.4f}")
for condition, actions in best.policy.by_label().items():
    print(condition, {action: round(share, 3) for action, share in actions.items()})

# The same machine asked in two other ways. Bounds are on the scale of values: averages per step, or a sum over twelve.
for problem in (machine(0.1, average=True), machine(1.2, horizon=12)):
    other = ib.solve(problem)
    print(f"{problem}: reward {other.reward:.4f}, price {other.prices[0]:.4f}; {other.certificate.verdict}")

run = ib.learn(discounted.simulator(), ib.CSPDA.practical(), samples=200_000, seed=0)
judged = ib.evaluate(discounted, run.policy)
print(f"learned from 200,000 samples: reward {judged.reward:.4f}, margin {judged.margins[0]:+.4f}")
