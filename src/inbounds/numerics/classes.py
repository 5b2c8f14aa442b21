"""Classes of states: which meet each other, where a policy can stay for ever, and how to walk somewhere.

A set of states is *closed* when no move leads out of it, and a *class* when each of its states leads to every other.
Every chain ends up in one of its closed classes. All of it is about which moves are possible, not how likely they are:
a move is an entry that is positive, and an entry that happens to be stored as zero is none.

Everything here is linear in the number of moves (up to the number of rounds, one short loop each), and compiles
nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from inbounds.arrays import Floats, Ints
from inbounds.numerics.rows import Chain, Rows


class Classes(NamedTuple):
    """The strongly connected components of a graph."""

    label: Ints  # [S], the component of each state
    closed: Any  # bool [C], whether no move leads out of a component

    @property
    def closed_ones(self) -> Ints:
        """The labels of the closed classes."""
        return np.flatnonzero(self.closed)

    def a_state_of(self, label: int) -> int:
        """The first state of a component."""
        return int(np.argmax(self.label == label))


def graph_of(chain: Chain) -> Any:
    """The moves of a chain between states: a CSR array [S, S] of ones, each move once."""
    n_states, starts, weights = len(chain.starts) - 1, np.asarray(chain.starts), chain.weights
    index = np.int32 if max(len(weights), n_states) < 2**31 else np.int64
    targets = np.asarray(chain.targets)
    is_move = weights > 0.0
    if not is_move.all():
        targets = targets[is_move]
        starts = np.concatenate([[0], np.cumsum(is_move)])[starts]
    graph = sp.csr_array(
        (np.ones(len(targets)), targets.astype(index), starts.astype(index)), shape=(n_states, n_states)
    )
    # SciPy's search for strong components follows a move twice when it stands there twice, and then need not end.
    graph.sum_duplicates()
    return graph


def graph_of_all_moves(rows: Rows) -> Any:
    """The moves that some pair allows, as `graph_of` gives them."""
    return graph_of(Chain(rows.starts[rows.offsets], rows.targets, rows.probabilities))


def classes_of(graph: Any) -> Classes:
    """The classes of a graph as `graph_of` gives it, and which of them are closed."""
    count, label = connected_components(graph, directed=True, connection="strong")
    here = np.repeat(label, np.diff(graph.indptr))
    closed = np.ones(count, dtype=bool)
    closed[here[here != label[graph.indices]]] = False
    return Classes(label.astype(np.int64), closed)


def moves_from(graph: Any, begin: Any) -> Ints:
    """How many moves [S] it takes to each state from the nearest one of `begin` (bool [S]); -1 where none leads."""
    n_states, first = graph.shape[0], np.flatnonzero(begin)
    # One more state, in front, that leads to those of `begin`: so that one search does.
    source = sp.csr_array(
        (
            np.ones(graph.nnz + len(first)),
            np.concatenate([graph.indices, first.astype(graph.indices.dtype)]),
            np.append(graph.indptr, graph.nnz + len(first)),
        ),
        shape=(n_states + 1, n_states + 1),
    )
    order, before = breadth_first_order(source, n_states, directed=True, return_predecessors=True)
    position = np.empty(n_states + 1, dtype=np.int64)
    position[order] = np.arange(len(order))
    found_from = position[before[order[1:]]]  # never decreases, so what is found from one level is one stretch
    result, level, known = np.full(n_states, -1, dtype=np.int64), 0, 1
    while known < len(order):
        behind = 1 + int(np.searchsorted(found_from, known))
        result[order[known:behind]] = level
        level, known = level + 1, behind
    return result


def where_a_policy_can_stay(rows: Rows, candidates: Any) -> Any:
    """The largest subset (bool [S]) of `candidates` that some policy never leaves, from anywhere within.

    States without a pair whose next states are all within are taken out, until nothing changes; every move is looked at
    once.
    """
    within, n_states, n_pairs = candidates.copy(), len(rows.offsets) - 1, len(rows.starts) - 1
    if not within.any():
        return within
    owner = np.repeat(np.arange(n_states), np.diff(rows.offsets))
    pair_of_move = np.repeat(np.arange(n_pairs), np.diff(rows.starts))
    is_move = rows.probabilities > 0.0
    targets = np.asarray(rows.targets).astype(np.int64)
    stays = _stays(rows, within)
    choices = np.bincount(owner, stays, n_states)
    by_target = np.argsort(np.where(is_move, targets, n_states), kind="stable")
    begins = np.searchsorted(targets[by_target[: int(np.count_nonzero(is_move))]], np.arange(n_states + 1))
    leaving = np.flatnonzero(within & (choices == 0))
    while len(leaving):
        within[leaving] = False
        lengths = begins[leaving + 1] - begins[leaving]
        places = np.repeat(begins[leaving] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        pairs = np.unique(pair_of_move[by_target[places]])
        pairs = pairs[stays[pairs]]
        stays[pairs] = False
        states, lost = np.unique(owner[pairs], return_counts=True)
        choices[states] -= lost
        leaving = states[within[states] & (choices[states] == 0)]
    return within


def where_a_policy_can_return(rows: Rows, within: Any) -> Any:
    """Of states `within` (bool [S]) of which a policy can stay, those at which it can: the others may only lead there.

    They are the closed classes of the moves that stay within; from every other state they can be reached.
    """
    stays = np.repeat(_stays(rows, within), np.diff(rows.starts))
    inside = rows._replace(probabilities=np.where(stays, rows.probabilities, 0.0))
    classes = classes_of(graph_of_all_moves(inside))
    return within & classes.closed[classes.label]


def _stays(rows: Rows, within: Any) -> Any:
    """Whether no move of a pair leads out of the states `within` (bool [S]): bool [n]."""
    leads_out = (rows.probabilities > 0.0) & ~within[np.asarray(rows.targets).astype(np.int64)]
    return ~np.logical_or.reduceat(leads_out, rows.starts[:-1])


def walk_to(rows: Rows, backwards: Any, goal: Any) -> Ints:
    """A pair [S] for every state from which `goal` (bool [S]) can be reached, on a way there of the fewest moves.

    Of several such pairs the one with the largest chance of a step closer: the fewest moves can take very long. In the
    goal itself, and where it cannot be reached, the first pair. `backwards` is the graph of all moves, transposed.
    """
    level = moves_from(backwards, goal)
    lengths = np.diff(rows.starts)
    from_level = np.repeat(np.repeat(level, np.diff(rows.offsets)), lengths)
    closer = np.where(level[np.asarray(rows.targets)] == from_level - 1, rows.probabilities, 0.0)
    closer[from_level <= 0] = 0.0
    return first_largest(rows.offsets, np.add.reduceat(closer, rows.starts[:-1]))


def first_largest(offsets: Ints, values: Floats) -> Ints:
    """In every state the pair with the largest of `values` [n], the first of several."""
    largest = np.repeat(np.maximum.reduceat(values, offsets[:-1]), np.diff(offsets))
    candidates = np.where(values >= largest, np.arange(len(values)), len(values))
    return np.minimum.reduceat(candidates, offsets[:-1])
