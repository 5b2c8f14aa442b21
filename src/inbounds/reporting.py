"""A problem and its answer as one page: solve it, move its bounds, and write what comes of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from inbounds.errors import InvalidInput, Stopped
from inbounds.exact.moving_bound import MOST_POINTS, frontier
from inbounds.formats.atomic import naming, replaced
from inbounds.inputs import callback, file_path, switch, whole_number
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.pieces import seconds_or_none
from inbounds.proofs.files import save_certificate
from inbounds.reports.page import Curve, page
from inbounds.solving import solve

_LARGE = 20_000
"""States from which on the policy beside the page is an .npz: so large a text is for nobody to read."""


def report(
    cmdp: CMDP,
    path: str | os.PathLike[str],
    *,
    points: int = 12,
    beside: bool = False,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
) -> list[Path]:
    """Solve a problem, and write ONE self-contained page about it: the paths that were written.

    The page (.html) loads nothing from anywhere. It has the problem, the optimum with its prices (Lagrange
    multipliers), the policy to filter, sort and see as a map, the optimum as each bound moves with a slider that moves
    the policy, and the proof. Values are as the criterion has them: discounted averages per step, normalised by (1 -
    discount), sums over a horizon, or long-run averages. Raises `Infeasible` where no policy keeps every bound.

    Parameters
    ----------
    cmdp : CMDP
    path : path of the page, .html
    points : int
        Bounds of each constraint that the slider has, 2 or more; 0 leaves them out.
    beside : bool
        Also write beside page.html the model, page-model.npz, its proof, page-certificate.json, and the policy,
        page-policy.json (.npz if it is large). What has these names is overwritten.
    progress : callable, optional
        Called with (curves finished, curves in all), the optimum as the first.
    time_limit : float, optional
        Seconds: curves that are not finished then have fewer points, or are left out, and if the proof is not, so is
        it. `Stopped` is raised, and nothing written, while no policy in bounds is known.

    Examples
    --------
    >>> import tempfile, inbounds as ib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = ib.report(ib.zoo.queue(), f"{folder}/queue.html", points=4)
    ...     written[0].read_text()[:15]
    '<!doctype html>'
    """
    require_model(cmdp, "report")
    target, beside, progress = file_path(path, "the path of a page"), switch(beside, "beside"), callback(progress)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"the path of a page is a file .html, found {str(path)!r}")
    number = whole_number(points, "points", 0, MOST_POINTS)
    if number == 1:
        raise InvalidInput("points must be 2 or more, or 0 for no curves")
    limit = seconds_or_none(time_limit)
    ends = None if limit is None else time.monotonic() + limit
    total = 1 + cmdp.n_constraints * (number > 0)

    def told(done: int) -> None:
        if progress is not None:
            progress(done, total)

    told(0)
    best = solve(cmdp, time_limit=limit)
    told(1)
    curves = []
    for k in range(cmdp.n_constraints if number else 0):
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0.0:
            break
        try:
            curve = frontier(cmdp, k, number, time_limit=left)
        except Stopped:
            break
        if len(curve.bounds):
            curves.append(Curve(k, curve.bounds, curve.solutions))
        told(2 + k)
    model, certificate, policy = paths_beside(cmdp, target)
    saved: dict[Path, Callable[[Path], None]] = {model: cmdp.save}
    if best.certificate is not None:  # at the time limit there is none
        saved[certificate] = partial(save_certificate, best.certificate)
    saved[policy] = best.policy.save
    if beside:
        for file, save in saved.items():
            save(file)
    names = [file.name for file in saved]
    text = page(cmdp, best, curves, cmdp.name or "A constrained decision problem", names, beside)
    with naming(target, "written"), replaced(target) as stream:
        stream.write(text.encode("utf-8"))
    return [target, *(file for file in saved if beside)]


def paths_beside(cmdp: CMDP, target: Path) -> tuple[Path, Path, Path]:
    """Where the model, the certificate and the policy go that are beside a page."""
    kind = ".npz" if cmdp.n_states > _LARGE else ".json"
    model, certificate, policy = (
        target.with_name(target.stem + end) for end in ("-model.npz", "-certificate.json", f"-policy{kind}")
    )
    return model, certificate, policy
