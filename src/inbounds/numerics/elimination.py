"""Sparse elimination of the equations of a chain, with the cost known, and bounded, before it begins.

The matrix A = I - W, where W [S, S] holds discount * P of a policy, has rows with a diagonal that dominates: Gaussian
elimination needs no pivoting, whatever the order of the states. So the order can be chosen once for all policies of a
problem, from the graph of its possible moves, to keep the fill small; and the fill, which is the same for every policy,
is known from the graph alone.

`plan` finds an order of (approximately) minimum degree on the quotient graph (Amestoy, Davis and Duff 1996). An
eliminated state p is remembered as the clique of its remaining neighbours, clique(p); a state's neighbours are those
still joined to it by an edge and those that share a clique with it. clique(p) is also the pattern of column p of the
lower factor and of row p of the upper one, and the work of factorising is the sum of its squared sizes. As soon as size
or work exceeds what the caller allows, the attempt is over; and so it is when ordering itself takes too long, or when
the states that are left are already joined by more edges than there is room for, each of which the factors must hold.

On graphs with small separators (chains, grids, queues, inventories) the fill is small. On random graphs it is not.

**Without a discount** I - P is singular, and near that where a chain mixes slowly: subtracting in the diagonal loses
all digits there. `reduce_states` never subtracts (state reduction: Grassmann, Taksar and Heyman 1985): every row k also
carries what it has lost for good, gone_k, and the pivot is what the row still sends to states behind it, plus that.
All numbers are sums and products of numbers >= 0, so each is right to a few units in its last place, however small
(O'Cinneide 1993).

**With a discount** close to 1 it is the same: a chain of weights discount * P loses 1 - discount in each step, which is
`gone` before anything is eliminated, and exact as a difference of floats from a discount of 1/2 on. The invariant: at
every stage the entries of a row and what it has lost sum to its pivot, and none of them was subtracted from another. So
the time per state, from a source >= 0, has all its digits whatever the discount; and of a reward with both signs the
values are right to a few units of rounding of the largest reward. Small models take the same steps on a full matrix
(`dense_visits`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.numerics.rows import Chain
from inbounds.numerics.sweeps import TRIAL_SWEEPS, is_slow

_STEPS = 200.0
"""Ordering may look at so many entries for each state and edge: grids take 20 to 40, in four dimensions 95. States that
everything leads to take one for each pair of states."""

_FEW_STEPS = 1e7
"""So many entries are looked at in a tenth of a second, and allowed at any rate."""

_WORTH = 10.0
"""Where sweeps did not settle, elimination may cost so many times what they did."""

_ANYWAY = 1e8
"""So many multiplications it may cost at any rate, some tenths of a second, and a hundredth of that in numbers."""

_LARGEST_FILL = 2e7
"""Numbers of a factor, at most: with their places, half a gigabyte for both."""

_LEAK = 0.01
"""With more than this, subtractions cost no more than two digits, and LAPACK is several times as fast."""


class EliminationPlan(NamedTuple):
    """An order of elimination and the pattern of the factors, in positions of that order."""

    order: Ints  # [S], the state at each position
    position: Ints  # [S], the inverse
    lower_starts: Ints  # [S + 1], rows of the strict lower factor
    lower_columns: Any  # int32 [fill], increasing within a row
    upper_starts: Ints  # [S + 1], rows of the strict upper factor
    upper_columns: Any  # int32 [fill], increasing within a row


class Factors(NamedTuple):
    """A = L U in the order of the plan; L has a unit diagonal."""

    plan: EliminationPlan
    lower: Floats  # [fill]
    diagonal: Floats  # [S], of U
    upper: Floats  # [fill]


def plan_if_faster(early: float, late: float, chain_size: int, starts: Any, targets: Any) -> EliminationPlan | None:
    """A plan, when sweeps over a chain contract slowly and elimination costs less than the sweeps it replaces.

    Parameters
    ----------
    early, late : float
        How much a sweep changed, and how much `TRIAL_SWEEPS` later; 0 when that is no more than rounding.
    chain_size : int
        Multiplications per sweep.
    starts, targets : as in `make_plan`
    """
    if not is_slow(early, late):
        return None
    rate = min((late / early) ** (1.0 / TRIAL_SWEEPS), 1.0 - 1e-9)
    sweeps = math.log(1e-12) / math.log(rate)
    return make_plan(
        starts, targets, most_fill=4.0 * len(targets) + 20.0 * len(starts), most_work=0.5 * sweeps * chain_size
    )


def plan_after(spent: float, refused: float, starts: Any, targets: Any) -> tuple[EliminationPlan | None, float]:
    """A plan, where sweeps that took the `spent` multiplications did not settle; and the work that it may cost.

    That is some times what was spent, and at least some tenths of a second. Where there was none for the work `refused`
    it is looked for again only for twice as much.
    """
    most_work = max(_WORTH * spent, _ANYWAY)
    if not most_work > 2.0 * refused:
        return None, refused
    most_fill = max(4.0 * len(targets) + 20.0 * len(starts), min(0.01 * most_work, _LARGEST_FILL))
    return make_plan(starts, targets, most_fill, most_work), most_work


def make_plan(starts: Any, targets: Any, most_fill: float, most_work: float) -> EliminationPlan | None:
    """A plan for every chain whose moves are among those given (the targets of each state, repeats allowed).

    None when the factors would hold more than `most_fill` numbers each, or take more than `most_work` multiplications;
    or, where the latter is finite, when finding the plan takes too long.
    """
    n_states = len(starts) - 1
    moves = sp.csr_array((np.ones(len(targets), np.int8), targets.astype(np.int64), starts), shape=(n_states, n_states))
    arriving = moves.tocsc()  # sorted by target; repeats stay
    neighbours, begins = _symmetric(
        starts, targets, arriving.indptr.astype(np.int64), arriving.indices.astype(np.int32)
    )
    most_steps = max(_STEPS * (len(neighbours) + n_states), _FEW_STEPS) if most_work < np.inf else np.inf
    order, *cliques = _minimum_degree(neighbours, begins, float(most_fill), float(most_work), most_steps)
    if len(order) < n_states:
        return None
    order = _postorder(order, np.argsort(order), *cliques)
    position = np.argsort(order)
    return EliminationPlan(order, position, *_patterns(order, position, *cliques))


def dense_visits(weights: Floats, leak: float) -> Floats:
    """leak * (I - W)^-1 [S, S] for weights W >= 0 [S, S] whose rows sum to 1 - leak; without a subtraction
    where that matters.

    A row has the chances of each state to be where a chain from there is lost: its discounted time per state. One state
    after the other is left out of all paths: a chain that would come to it goes on at once to where it next goes, or is
    lost there. Of the columns only those of states to come and of losses in states gone are other than 0.
    """
    n_states = len(weights)
    if leak > _LEAK:
        return np.array(leak * np.linalg.inv(np.eye(n_states) - weights))
    left = np.hstack([weights, leak * np.eye(n_states)])
    for k in range(n_states):
        arriving, window = left[:, k].copy(), left[:, k + 1 : n_states + k + 1]
        window[k] /= window[k].sum()
        arriving[k] = 0.0
        window += arriving[:, None] * window[k]
    return left[:, n_states:]


def pinned(factors: Factors) -> Ints:
    """The states that `reduce_states` pinned."""
    return factors.plan.order[np.isinf(factors.diagonal)]


@compiled
def _symmetric(starts: Any, targets: Any, arriving: Ints, sources: Any) -> Any:
    """The states joined to each state by a move in either direction, without repeats and without itself.

    The moves to state s come from ``sources[arriving[s] : arriving[s + 1]]``.
    """
    n_states = starts.shape[0] - 1
    neighbours = np.empty(2 * sources.shape[0], dtype=np.int32)
    begins = np.zeros(n_states + 1, dtype=np.int64)
    seen = np.full(n_states, -1, dtype=np.int32)
    at = 0
    for s in range(n_states):
        seen[s] = s
        for entry in range(starts[s], starts[s + 1]):
            t = targets[entry]
            if seen[t] != s:
                seen[t] = s
                neighbours[at] = t
                at += 1
        for entry in range(arriving[s], arriving[s + 1]):
            other = sources[entry]
            if seen[other] != s:
                seen[other] = s
                neighbours[at] = other
                at += 1
        begins[s + 1] = at
    return neighbours[:at].copy(), begins


@compiled
def _minimum_degree(neighbours: Any, begins: Ints, most_fill: float, most_work: float, most_steps: float) -> Any:
    """The order, and the clique of each state; an order that is too short means that a limit was exceeded.

    The list of a state holds first its cliques, then its remaining neighbours. Eliminating p removes from the list of
    each of its neighbours at least one entry (p, or a clique that clique(p) contains) and adds one, so lists never
    grow. Cliques are appended behind them, and stay.
    """
    n_states = begins.shape[0] - 1
    lists = np.empty(neighbours.shape[0] + max(neighbours.shape[0], n_states) + n_states, dtype=np.int32)
    for entry in range(neighbours.shape[0]):
        lists[entry] = neighbours[entry]
    free = neighbours.shape[0]
    begin = begins[:-1].copy()  # of a state's list, or of its clique once it is eliminated
    n_cliques = np.zeros(n_states, dtype=np.int64)
    n_entries = np.empty(n_states, dtype=np.int64)  # of a state's list, cliques included; of a clique: its size
    degree = np.empty(n_states, dtype=np.int64)
    eliminated = np.zeros(n_states, dtype=np.bool_)
    absorbed = np.zeros(n_states, dtype=np.bool_)  # a clique that another contains
    mark = np.full(n_states, -1, dtype=np.int64)
    outside = np.zeros(n_states, dtype=np.int64)  # of a clique: how many of its states are not in the newest one
    outside_of = np.full(n_states, -1, dtype=np.int64)
    # Doubly linked lists of the states of each degree.
    head = np.full(n_states + 1, -1, dtype=np.int64)
    after = np.full(n_states, -1, dtype=np.int64)
    before = np.full(n_states, -1, dtype=np.int64)
    for s in range(n_states - 1, -1, -1):
        n_entries[s] = begins[s + 1] - begins[s]
        d = n_entries[s]
        degree[s] = d
        after[s] = head[d]
        if head[d] >= 0:
            before[head[d]] = s
        head[d] = s
    order = np.empty(n_states, dtype=np.int64)
    done = 0
    least = 0
    fill = 0.0
    work = 0.0
    steps = 0.0  # entries of lists looked at
    joined = float(neighbours.shape[0])  # the sum of all degrees that are left
    while done < n_states:
        while head[least] < 0:
            least += 1
        p = head[least]
        head[least] = after[p]
        if after[p] >= 0:
            before[after[p]] = -1
        eliminated[p] = True
        joined -= degree[p]

        # The clique of p: its neighbours by edge and through its cliques, which the new one contains.
        if free + n_states > lists.shape[0]:
            larger = np.empty(2 * lists.shape[0] + n_states, dtype=np.int32)
            for entry in range(free):
                larger[entry] = lists[entry]
            lists = larger
        new_begin = free
        mark[p] = p
        steps += n_entries[p]
        for entry in range(begin[p], begin[p] + n_entries[p]):
            item = lists[entry]
            if entry < begin[p] + n_cliques[p]:
                if absorbed[item]:
                    continue
                steps += n_entries[item]
                for inner in range(begin[item], begin[item] + n_entries[item]):
                    i = lists[inner]
                    if mark[i] != p:
                        mark[i] = p
                        lists[free] = i
                        free += 1
                absorbed[item] = True
            elif not eliminated[item] and mark[item] != p:
                mark[item] = p
                lists[free] = item
                free += 1
        size = free - new_begin
        begin[p] = new_begin
        n_entries[p] = size
        n_cliques[p] = 0
        order[done] = p
        done += 1
        fill += size
        work += float(size) * size
        # Degrees are bounds, which become loose towards the end: half of them, in the first half, is not too much.
        hopeless = 2 * done < n_states and fill + 0.25 * joined > most_fill
        if fill > most_fill or work > most_work or steps > most_steps or hopeless:
            return order[: done - 1], lists, begin, n_entries

        for entry in range(new_begin, free):
            i = lists[entry]
            for inner in range(begin[i], begin[i] + n_cliques[i]):
                clique = lists[inner]
                if not absorbed[clique]:
                    if outside_of[clique] != p:
                        outside_of[clique] = p
                        outside[clique] = n_entries[clique]
                    outside[clique] -= 1
        for entry in range(new_begin, free):
            i = lists[entry]
            first = begin[i]
            to = first
            steps += n_cliques[i] + n_entries[i]
            bound = size - 1
            for inner in range(first, first + n_cliques[i]):
                clique = lists[inner]
                if not absorbed[clique]:
                    if outside[clique] == 0:
                        absorbed[clique] = True
                    else:
                        bound += outside[clique]
                        lists[to] = clique
                        to += 1
            middle = to
            for inner in range(first + n_cliques[i], first + n_entries[i]):
                other = lists[inner]
                if not eliminated[other] and mark[other] != p:
                    lists[to] = other
                    to += 1
            bound += to - middle
            # Room for p in front: the first neighbour moves to the end, the first clique to the end of the cliques.
            lists[to] = lists[middle]
            lists[middle] = lists[first]
            lists[first] = p
            n_cliques[i] = middle - first + 1
            n_entries[i] = to - first + 1

            new_degree = min(bound, degree[i] + size - 1, n_states - done)
            if new_degree != degree[i]:
                joined += new_degree - degree[i]
                if before[i] >= 0:
                    after[before[i]] = after[i]
                else:
                    head[degree[i]] = after[i]
                if after[i] >= 0:
                    before[after[i]] = before[i]
                before[i] = -1
                after[i] = head[new_degree]
                if head[new_degree] >= 0:
                    before[head[new_degree]] = i
                head[new_degree] = i
                degree[i] = new_degree
                if new_degree < least:
                    least = new_degree
    return order, lists, begin, n_entries


@compiled
def _postorder(order: Ints, position: Ints, cliques: Any, begin: Ints, sizes: Ints) -> Any:
    """The same elimination with the same fill, but what belongs together close together, for the sake of caches.

    The parent of a state is the first of its clique to be eliminated; only descendants matter to a state, so any order
    that visits children before parents will do.
    """
    n_states = order.shape[0]
    child = np.full(n_states, -1, dtype=np.int64)  # by position: the first child, and the next one of the same parent
    sibling = np.full(n_states, -1, dtype=np.int64)
    root = -1
    for k in range(n_states - 1, -1, -1):
        p = order[k]
        parent = n_states
        for entry in range(begin[p], begin[p] + sizes[p]):
            parent = min(parent, position[cliques[entry]])
        if parent == n_states:
            sibling[k] = root
            root = k
        else:
            sibling[k] = child[parent]
            child[parent] = k
    result = np.empty(n_states, dtype=np.int64)
    path = np.empty(n_states, dtype=np.int64)
    done = 0
    while root >= 0:
        depth = 0
        path[0] = root
        root = sibling[root]
        while depth >= 0:
            k = path[depth]
            if child[k] >= 0:
                depth += 1
                path[depth] = child[k]
                child[k] = sibling[child[k]]
            else:
                result[done] = order[k]
                done += 1
                depth -= 1
    return result


@compiled
def _patterns(order: Ints, position: Ints, cliques: Any, begin: Ints, sizes: Ints) -> Any:
    """The rows of both factors, each in increasing order."""
    n_states = order.shape[0]
    lower_starts = np.zeros(n_states + 1, dtype=np.int64)
    upper_starts = np.zeros(n_states + 1, dtype=np.int64)
    for k in range(n_states):
        p = order[k]
        upper_starts[k + 1] = upper_starts[k] + sizes[p]
        for entry in range(begin[p], begin[p] + sizes[p]):
            lower_starts[position[cliques[entry]] + 1] += 1
    for k in range(n_states):
        lower_starts[k + 1] += lower_starts[k]
    # Scattering in the order of columns sorts the rows of the lower factor; scattering those, the upper one's.
    lower_columns = np.empty(lower_starts[n_states], dtype=np.int32)
    upper_columns = np.empty(upper_starts[n_states], dtype=np.int32)
    filled = lower_starts[:-1].copy()
    for k in range(n_states):
        p = order[k]
        for entry in range(begin[p], begin[p] + sizes[p]):
            row = position[cliques[entry]]
            lower_columns[filled[row]] = k
            filled[row] += 1
    for k in range(n_states):
        filled[k] = upper_starts[k]
    for row in range(n_states):
        for entry in range(lower_starts[row], lower_starts[row + 1]):
            k = lower_columns[entry]
            upper_columns[filled[k]] = row
            filled[k] += 1
    return lower_starts, lower_columns, upper_starts, upper_columns


@compiled
def factorise(plan: EliminationPlan, chain: Chain) -> Factors:
    """The factors of I - W for the weights W of a chain."""
    n_states = plan.order.shape[0]
    lower = np.empty(plan.lower_columns.shape[0])
    upper = np.empty(plan.upper_columns.shape[0])
    diagonal = np.empty(n_states)
    row = np.zeros(n_states)  # the row at work, by position; all zeros in between
    for k in range(n_states):
        s = plan.order[k]
        row[k] = 1.0
        for entry in range(chain.starts[s], chain.starts[s + 1]):
            row[plan.position[chain.targets[entry]]] -= chain.weights[entry]
        for entry in range(plan.lower_starts[k], plan.lower_starts[k + 1]):
            j = plan.lower_columns[entry]
            factor = row[j]
            row[j] = 0.0
            if factor != 0.0:
                factor /= diagonal[j]
                for inner in range(plan.upper_starts[j], plan.upper_starts[j + 1]):
                    row[plan.upper_columns[inner]] -= factor * upper[inner]
            lower[entry] = factor
        diagonal[k] = row[k]
        row[k] = 0.0
        for entry in range(plan.upper_starts[k], plan.upper_starts[k + 1]):
            upper[entry] = row[plan.upper_columns[entry]]
            row[plan.upper_columns[entry]] = 0.0
    return Factors(plan, lower, diagonal, upper)


def reduce_states(plan: EliminationPlan, chain: Chain, leak: float = 0.0, share: float = 1.0) -> Factors:
    """The factors of I - share * W for the weights W [S, S] of a chain, without a subtraction.

    Every row of share * W sums to 1 - leak: up to rounding, which the diagonal is taken to make up for.

    With no leak the matrix is singular: the last state of each closed class, in the order of the plan, has a pivot that
    is exactly zero, and is *pinned*. Its pivot is then infinite; a move into it counts as lost. So solutions are zero
    there and solve the equations of all other states; `pinned` lists these states, one for each closed class. To pin
    another state, give a chain that never leaves it: entries that are zero are no moves.
    """
    return _reduced(plan, chain, leak, share)


@compiled
def _reduced(plan: EliminationPlan, chain: Chain, leak: float, share: float) -> Factors:
    n_states = plan.order.shape[0]
    lower = np.empty(plan.lower_columns.shape[0])
    upper = np.empty(plan.upper_columns.shape[0])
    diagonal = np.empty(n_states)
    gone = np.empty(n_states)  # what a row loses: by the leak, and into pinned states
    row = np.zeros(n_states)  # the row at work, by position; all zeros in between. What is on the diagonal is not used
    for k in range(n_states):
        s = plan.order[k]
        for entry in range(chain.starts[s], chain.starts[s + 1]):
            row[plan.position[chain.targets[entry]]] -= share * chain.weights[entry]
        lost = leak
        for entry in range(plan.lower_starts[k], plan.lower_starts[k + 1]):
            j = plan.lower_columns[entry]
            factor = row[j]
            row[j] = 0.0
            if factor != 0.0:
                if diagonal[j] == np.inf:
                    lost -= factor
                    factor = 0.0
                else:
                    factor /= diagonal[j]
                    lost -= factor * gone[j]
                    for inner in range(plan.upper_starts[j], plan.upper_starts[j + 1]):
                        row[plan.upper_columns[inner]] -= factor * upper[inner]
            lower[entry] = factor
        row[k] = 0.0
        gone[k] = lost
        pivot = lost
        for entry in range(plan.upper_starts[k], plan.upper_starts[k + 1]):
            upper[entry] = row[plan.upper_columns[entry]]
            row[plan.upper_columns[entry]] = 0.0
            pivot -= upper[entry]
        diagonal[k] = pivot if pivot > 0.0 else np.inf
    return Factors(plan, lower, diagonal, upper)


@compiled
def eliminate(factors: Factors, right: Floats) -> Floats:
    """v [S] with (I - W) v = right: the values of the chain when `right` is its reward."""
    plan = factors.plan
    n_states = plan.order.shape[0]
    work = np.empty(n_states)
    for k in range(n_states):
        total = right[plan.order[k]]
        for entry in range(plan.lower_starts[k], plan.lower_starts[k + 1]):
            total -= factors.lower[entry] * work[plan.lower_columns[entry]]
        work[k] = total
    result = np.empty(n_states)
    for k in range(n_states - 1, -1, -1):
        total = work[k]
        for entry in range(plan.upper_starts[k], plan.upper_starts[k + 1]):
            total -= factors.upper[entry] * work[plan.upper_columns[entry]]
        work[k] = total / factors.diagonal[k]
        result[plan.order[k]] = work[k]
    return result


@compiled
def eliminate_transposed(factors: Factors, right: Floats) -> Floats:
    """x [S] with (I - W)^T x = right: the time per state of the chain when `right` is its source."""
    plan = factors.plan
    n_states = plan.order.shape[0]
    work = np.empty(n_states)
    for k in range(n_states):
        work[k] = right[plan.order[k]]
    for k in range(n_states):
        work[k] /= factors.diagonal[k]
        for entry in range(plan.upper_starts[k], plan.upper_starts[k + 1]):
            work[plan.upper_columns[entry]] -= factors.upper[entry] * work[k]
    result = np.empty(n_states)
    for k in range(n_states - 1, -1, -1):
        result[plan.order[k]] = work[k]
        for entry in range(plan.lower_starts[k], plan.lower_starts[k + 1]):
            work[plan.lower_columns[entry]] -= factors.lower[entry] * work[k]
    return result
