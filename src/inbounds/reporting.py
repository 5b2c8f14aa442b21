"""A problem and its answer as one page: solve it, move its bounds, and write what comes of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from inbounds.criteria.evaluation import evaluate
from inbounds.errors import InvalidInput, Stopped
from inbounds.exact.moving_bound import MOST_POINTS
from inbounds.formats.atomic import naming, replaced
from inbounds.inputs import callback, file_path, switch, whole_number
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.pieces import seconds_or_none
from inbounds.problem.policy import Policy, for_problem
from inbounds.proofs.files import save_certificate
from inbounds.reports.page import BESIDE, page
from inbounds.solving import frontier, solve

_LARGE = 20_000
"""States from which on the policy beside the page is an .npz: so large a text is for nobody to read."""


def report(
    cmdp: CMDP,
    path: str | os.PathLike[str],
    *,
    points: int = 12,
    policy: Policy | None = None,
    beside: bool = False,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
) -> list[Path]:
    """Solve a problem, and write ONE self-contained page about it: the paths that were written.

    The page (.html) loads nothing from anywhere. It has the problem, the optimum with its prices (Lagrange
    multipliers), the policy to filter, sort and see as a map, the optimum as each bound moves with a slider that moves
    the policy, and the proof. At a stop of the slider the policy has few coins and is proved to be in bounds, or the
    page says that it is not. Values are as the criterion has them: discounted averages per step, normalised by (1 -
    discount), sums over a horizon, or long-run averages. Raises `Infeasible` where no policy keeps every bound.

    Parameters
    ----------
    cmdp : CMDP
    path : path of the page, .html
    points : int
        Bounds of each constraint that the slider has, 2 or more; 0 leaves them out.
    policy : Policy, optional
        Another one, such as the rule of thumb in use: its reward and margins beside those of the best, and where the
        two differ.
    beside : bool
        Also write beside page.html the model, page-model.npz, its proof, page-certificate.json, and the policy,
        page-policy.json (.npz if it is large). Those of an earlier page of this name are replaced; any other file that
        has one of these names is not, and the report is refused.
    progress : callable, optional
        Called with (curves finished, curves in all), the optimum as the first.
    time_limit : float, optional
        Seconds: curves that are not finished then have fewer points, or are left out, and if the proof is not, so is
        it. `Stopped` is raised, and nothing written, while no policy in bounds is known.

    Examples
    --------
    >>> import tempfile, inbounds as ib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queue = ib.zoo.queue()
    ...     written = ib.report(queue, f"{folder}/queue.html", points=4, policy=ib.Policy.uniform(queue))
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
    other = None if policy is None else for_problem(cmdp, policy)
    files = paths_beside(cmdp, target)
    if beside:
        _require_own(files, target)
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
            curve = frontier(cmdp, k, number, certificate=True, time_limit=left)
        except Stopped:
            break
        if len(curve.bounds):
            curves.append(curve)
        told(2 + k)
    saved: dict[Path, Callable[[Path], None]] = {files[0]: cmdp.save}
    if best.certificate is not None:  # at the time limit there is none
        saved[files[1]] = partial(save_certificate, best.certificate)
    saved[files[2]] = best.policy.save
    if beside:
        for file, save in saved.items():
            save(file)
    names, title = [file.name for file in saved], cmdp.name or "A constrained decision problem"
    text = page(cmdp, best, curves, None if other is None else (other, evaluate(cmdp, other)), title, names, beside)
    with naming(target, "written"), replaced(target) as stream:
        stream.write(text.encode("utf-8"))
    return [target, *(file for file in saved if beside)]


def _require_own(files: Sequence[Path], target: Path) -> None:
    """Refuse to overwrite files beside a page that are not those of an earlier page of the same name."""
    there = [file for file in files if file.exists()]
    if there and not (target.exists() and BESIDE in target.read_text("utf-8", errors="replace")):
        raise InvalidInput(
            f"{there[0]} is there already, and no earlier {target.name} came with it: it would be overwritten; give "
            f"the page another name, or remove that file"
        )


def paths_beside(cmdp: CMDP, target: Path) -> tuple[Path, Path, Path]:
    """Where the model, the certificate and the policy go that are beside a page."""
    kind = ".npz" if cmdp.n_states > _LARGE else ".json"
    model, certificate, policy = (
        target.with_name(target.stem + end) for end in ("-model.npz", "-certificate.json", f"-policy{kind}")
    )
    return model, certificate, policy
