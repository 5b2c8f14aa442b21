"""A problem and its answer as one page: solve it, move its bounds, and write what comes of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from inbounds.criteria.evaluation import ROUNDING, evaluate
from inbounds.errors import InvalidInput, Stopped
from inbounds.exact.frontier import Frontier
from inbounds.exact.limits import TIME
from inbounds.exact.moving_bound import MOST_POINTS, Says
from inbounds.exact.optimum import OPTIMAL
from inbounds.exact.solution import Solution
from inbounds.formats.atomic import naming, replaced_together, require_writable
from inbounds.inputs import callback, file_path, switch, whole_number
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.pieces import attach, attached, seconds_or_none
from inbounds.problem.policy import Policy, for_problem
from inbounds.proofs.files import save_certificate
from inbounds.reports.page import BESIDE, MovedBounds, page
from inbounds.solving import frontier, solve
from inbounds.tables import in_unicode, outwards, printable

_LARGE = 20_000
"""States from which on the policy beside the page is an .npz: so large a text is for nobody to read."""

_POINTS = ((_LARGE, 12), (100_000, 6))
_FEWEST = 4
"""Stops of each slider, by the number of states (times stages): each is solved, and proved."""

_SLACK = 1e-9
"""Of a margin, relative to the scale of its constraint: with less the bound is taken to bind."""

_FAR = 1e3
"""A bound that is so many times looser, than the bounds that matter are wide, has a sentence and no curve."""

_EDGE = 1e-4
"""A curve ends this share of its length before the last bound that can be kept, where the price may be infinite."""


class Written(NamedTuple):
    """What came of a report: the files, and in words what is missing from the page because it was broken off."""

    files: list[Path]
    missing: tuple[str, ...]

    @property
    def in_words(self) -> str:
        """Of a report that is interrupted, what is known."""
        return f"what {printable(self.files[0])} shows"


class _Stop:
    """Ctrl-C once the optimum is known: what is then unfinished is left out, the page is written, and it goes on up."""

    error: KeyboardInterrupt | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt as error:
            self.error = error


def report(
    cmdp: CMDP,
    path: str | os.PathLike[str],
    *,
    points: int | None = None,
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
    points : int, optional
        Bounds of each constraint that the slider has besides the present one, 2 or more; 0 leaves the curves out. Each
        takes a solve and a proof: left out, 12, from 20,000 states (times stages) on 6, and from 100,000 on 4. A bound
        that does not matter for anything near it, or as far as a policy keeps it, has a sentence in place of a curve.
    policy : Policy, optional
        Another one, such as the rule of thumb in use: its reward and margins beside those of the best, and where the
        two differ.
    beside : bool
        Also write beside page.html the model, page-model.npz, its proof, page-certificate.json, and the policy,
        page-policy.json (.npz if it is large). Those of an earlier page of this name are replaced; any other file that
        has one of these names is not, and the report is refused.
    progress : callable, optional
        Called as ``progress(done, total)``: the optimum counts as one, and so does each point of each curve.
    time_limit : float, optional
        Seconds: curves that are not finished then have fewer points, or are left out, and if the proof is not, so is
        it; the page says which. What is left after the optimum is shared among the curves. `Stopped` is raised, and
        nothing written, while no policy in bounds is known.

    At Ctrl-C after the optimum the page is written as at a limit, and then the KeyboardInterrupt goes on.

    Examples
    --------
    >>> import tempfile, inbounds as ib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queue = ib.zoo.queue()
    ...     written = ib.report(queue, f"{folder}/queue.html", points=4, policy=ib.Policy.uniform(queue))
    ...     written[0].read_text()[:15]
    '<!doctype html>'
    """
    return written_report(
        cmdp, path, points=points, policy=policy, beside=beside, progress=progress, time_limit=time_limit
    ).files


def written_report(
    cmdp: CMDP,
    path: str | os.PathLike[str],
    *,
    points: int | None = None,
    policy: Policy | None = None,
    beside: bool = False,
    progress: Callable[[int, int], None] | None = None,
    says: Says = lambda doing: None,
    time_limit: float | None = None,
    title: str = "",
) -> Written:
    """``ib.report``, and what is missing from the page; `says` is told in words what is being done.

    Where it is interrupted after the optimum, this is the `partial` of the KeyboardInterrupt.
    """
    require_model(cmdp, "report")
    target, beside, progress = file_path(path, "the path of a page"), switch(beside, "beside"), callback(progress)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"the path of a page is a file .html, found {str(path)!r}")
    number = _points(cmdp) if points is None else whole_number(points, "points", 0, MOST_POINTS)
    if number == 1:
        raise InvalidInput("points must be 2 or more, or 0 for no curves")
    other = None if policy is None else for_problem(cmdp, policy)
    files = paths_beside(cmdp, target)
    for file in (target, *files) if beside else (target,):  # before anything is solved
        with naming(file, "written"):
            require_writable(file)
    if beside:
        _require_own(files, target)
    limit = seconds_or_none(time_limit)
    begun, total = time.monotonic(), 1 + cmdp.n_constraints * number

    def told(done: int) -> None:
        if progress is not None:
            progress(done, total)

    told(0)
    says("the optimum")
    best = solve(
        cmdp,
        time_limit=limit,
        progress=lambda solves, lower, upper: says(f"the optimum: {solves} solves, gap {upper - lower:.1e}"),
        proof_progress=lambda done, of: says(f"the proof of the optimum: {done} of {of}"),
    )
    moving, stop = None, _Stop()
    with stop.held():
        told(1)
    taken = time.monotonic() - begun
    missing = [] if best.certificate is not None else ["the proof of the policy"]
    if best.status == TIME and best.partial is not None:
        more = outwards(best.gap, up=True, digits=3)
        missing.append(f"the rest of the search: the best policy may have up to {more} more reward")
    if limit is None or (best.certificate is not None and taken < limit / 2):  # it may take as long again
        with stop.held():
            if stop.error is None:
                says("how prices move")
                moving = best.sensitivities
    if moving is None and cmdp.constraints:
        missing.append("how prices move")
    ends = None if limit is None else begun + limit
    curves = _curves(cmdp, best, number, ends, lambda done: told(1 + done), says, stop)
    if points is None and curves.found and number < _POINTS[0][1]:
        size = "The problem is large, and a point is a solve: {} for each curve. --points or points= asks for others."
        curves.notes.append(size.format(number))
    missing += curves.missing
    saved: dict[Path, Callable[[Path], None]] = {files[0]: cmdp.save}
    if best.certificate is not None:  # at the time limit there is none
        saved[files[1]] = partial(save_certificate, best.certificate)
    saved[files[2]] = best.policy.save
    says("the page")
    names, title = [in_unicode(file.name) for file in saved], title or cmdp.name or "A constrained decision problem"
    judged = None if other is None else (other, evaluate(cmdp, other))
    cut = "" if limit is None or not missing else f"Cut short by the time limit of {limit:g} seconds"
    cut = cut if stop.error is None else "Cut short by an interruption"
    text = page(cmdp, best, moving, curves, judged, title, names, beside, (cut, missing))
    contents = {target: text.encode("utf-8", "backslashreplace")}  # the name of a file may be no text
    with naming(target, "written"):
        if beside:
            with TemporaryDirectory(prefix=".inbounds-", dir=target.parent) as folder:
                for file, save in saved.items():
                    save(Path(folder) / file.name)
                    contents[file] = (Path(folder) / file.name).read_bytes()
        with replaced_together([*contents]) as streams:  # a page beside the files of another one would be no page
            for stream, content in zip(streams, contents.values(), strict=True):
                stream.write(content)
        for file in files if beside else ():
            if file not in saved:  # of an earlier page: a proof of another model
                file.unlink(missing_ok=True)
    done = Written([*contents], tuple(missing))
    if stop.error is not None:
        attach(stop.error, done)
        raise stop.error
    return done


def _points(cmdp: CMDP) -> int:
    """Stops of each slider where nobody asks for a number."""
    size = cmdp.n_states * cmdp.layers
    return next((points for largest, points in _POINTS if size <= largest), _FEWEST)


def _curves(
    cmdp: CMDP, best: Solution, number: int, ends: float | None, told: Callable[[int], None], says: Says, stop: _Stop
) -> MovedBounds:
    """The optimum as each bound moves; what time is left is shared among those that are to come.

    Bounds that do not bind are first: of them a sentence may be all that there is to say, and others have the time.
    """
    count = cmdp.n_constraints if number else 0
    found: list[Frontier | None] = [None] * count
    for place, k in enumerate(sorted(range(count), key=lambda k: _binds(best, k))):
        name = cmdp.constraints[k].name
        left = None if ends is None else (ends - time.monotonic()) / (count - place)
        if best.status != TIME and stop.error is None and (left is None or left > 0.0):
            with suppress(Stopped), stop.held():
                says(f"{name}: where its curve begins and ends")
                counting, saying = _counting(place * number, told), _saying(name, says)
                found[k] = _curve(cmdp, best, k, number, left, counting, saying, stop)
        if stop.error is None:
            told((place + 1) * number)
    curves = MovedBounds([], [], [])
    for k, curve in enumerate(found):
        if curve is None:
            curves.missing.append(f"the curve of {cmdp.constraints[k].name}")
        elif not len(curve.bounds) and curve.status == OPTIMAL:
            curves.notes.append(_does_not_matter(cmdp, k, curve))
        else:
            curves.found.append(curve)
            if curve.status != OPTIMAL:
                lost = number - len(curve.bounds)
                cut = f"{lost} of the {number} points of the curve of {curve.constraint}, those of the tightest bounds"
                curves.missing.append(cut)
    return curves


def _binds(best: Solution, k: int) -> bool:
    return bool(best.margins[k] <= _SLACK * best.margin_scales[k])


def _counting(before: int, told: Callable[[int], None]) -> Callable[[int, int], None]:
    """The progress of one curve: its points, and those `before` it."""
    return lambda done, total: told(before + done)


def _saying(name: str, says: Says) -> Says:
    """What is being done for one curve."""
    return lambda doing: says(f"{name}: {doing}")


def _curve(
    cmdp: CMDP,
    best: Solution,
    k: int,
    number: int,
    seconds: float | None,
    progress: Callable[[int, int], None],
    says: Says,
    stop: _Stop,
) -> Frontier:
    """The optimum as one bound moves, to bounds among which the present one is worth looking at.

    A bound that binds lies among those that matter. One that does not has nothing to show between itself and where it
    begins to matter: there the policy stays what it is. Without points where that is all there is to say.
    """
    ends = None if seconds is None else time.monotonic() + seconds

    def asked(problem: CMDP, **wanted: Any) -> Frontier:
        left = None if ends is None else max(ends - time.monotonic(), 1e-3)
        try:
            return frontier(problem, k, **wanted, says=says, time_limit=left)
        except KeyboardInterrupt as error:
            stop.error, curve = error, getattr(attached(error), "curve", None)
            if curve is None:
                raise
            return curve  # type: ignore[no-any-return]

    own = cmdp.constraints[k]
    never = own.outward * (abs(own.bound) + 1.0 + 2.0 * cmdp.layers * float(np.max(np.abs(own.signal))))
    if _binds(best, k):
        # All points are besides the present bound, whose answer is there: none is spent on it.
        elsewhere = cmdp.with_bound(k, **{"at_most" if own.at_least is None else "at_least": -never})
        curve = asked(elsewhere, points=number, certificate=True, progress=progress)
        if curve.status == OPTIMAL and _never_matters(cmdp, k, curve) and not best.prices[k] > 0.0:
            curve = replace(curve, bounds=curve.bounds[:0], solutions=())
        return replace(curve, present=own.bound)
    found = asked(cmdp, bounds=[never])  # which no policy keeps: nothing but the ends is looked for
    loose, tight = found.matters_from, found.possible_to
    if abs(loose - own.bound) > _FAR * abs(tight - loose) or _never_matters(cmdp, k, found):
        return found
    wanted = np.linspace(loose, tight - own.outward * _EDGE * abs(tight - loose), number)
    return asked(cmdp, bounds=wanted.tolist(), certificate=True, progress=progress)


def _does_not_matter(cmdp: CMDP, k: int, ends: Frontier) -> str:
    """Of a bound that is far from where it would."""
    own, rounding = cmdp.constraints[k], ROUNDING * cmdp.margin_scales[k]
    begins, last = (
        "0" if abs(end) <= rounding else words
        for end, words in zip((ends.matters_from, ends.possible_to), ends.ends_in_words, strict=True)
    )
    beyond = "more" if ends.at_least else "less"
    if _never_matters(cmdp, k, ends):
        why = f"a tighter bound costs nothing until {begins}, and no policy keeps {beyond}"
        if abs(ends.matters_from - own.bound) <= rounding:
            why = f"a looser bound gains nothing, and no policy keeps {beyond}"
    else:
        why = f"a tighter bound costs nothing until {begins}; no policy keeps {beyond} than {last}"
    return f"{own.name} {own.in_words} does not matter: {why}."


def _never_matters(cmdp: CMDP, k: int, ends: Frontier) -> bool:
    """Whether a bound costs nothing as far as a policy keeps it."""
    return abs(ends.matters_from - ends.possible_to) <= ROUNDING * float(cmdp.margin_scales[k])


def _require_own(files: Sequence[Path], target: Path) -> None:
    """Refuse to overwrite files beside a page that are not those of an earlier page of the same name."""
    there = [file for file in files if file.exists()]
    with naming(target, "read"):
        own = target.exists() and BESIDE in target.read_text("utf-8", errors="replace")
    if there and not own:
        which = f"the {target.name} there does not say that it" if target.exists() else f"no earlier {target.name}"
        raise InvalidInput(
            f"{there[0]} is there already, and {which} came with it: it would be overwritten; give the page "
            "another name, or remove that file"
        )


def paths_beside(cmdp: CMDP, target: Path) -> tuple[Path, Path, Path]:
    """Where the model, the certificate and the policy go that are beside a page."""
    kind = ".npz" if cmdp.n_states > _LARGE else ".json"
    model, certificate, policy = (
        target.with_name(target.stem + end) for end in ("-model.npz", "-certificate.json", f"-policy{kind}")
    )
    return model, certificate, policy
