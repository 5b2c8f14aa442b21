"""Pictures of policies: what the axes are, and where they randomise."""

from __future__ import annotations

import numpy as np
import pytest

import inbounds as ib
from inbounds.pictures import grid_of, occupancy_figure, policy_figure


def drawn(labels, surest, stages=1):
    """The figure of a policy that always does the same, with the probabilities `surest` [S] of the last stage."""
    sure = np.ones((stages, len(labels)))
    sure[-1] = surest
    return policy_figure(labels, ["only"], np.zeros(sure.shape, dtype=np.int64), sure)


def dots(figure):
    return sum(len(line.get_xdata()) for panel in figure.axes for line in panel.lines)


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize(
    ("states", "coins", "marked"),
    [(100, 0, 0), (100, 100, 100), (2_500, 2_500, 2_500), (2_501, 200, 200), (10_000, 3, 3), (2_501, 201, 0)],
)
def test_dots_where_they_can_be_told_apart_and_a_legend_where_there_are_dots(states, coins, marked) -> None:
    surest = np.ones(states)
    surest[:coins] = 0.5
    figure = drawn(list(range(states)), surest)
    assert dots(figure) == marked and legend(figure) == ["only"] + ["randomises"] * (marked > 0)


def test_a_picture_goes_where_a_path_says() -> None:
    with pytest.raises(ib.InvalidInput, match="path must be text or a Path, found 5"):
        ib.solve(ib.zoo.queue()).plot(5)


def test_no_legend_of_a_coin_in_a_slice_that_is_not_shown() -> None:
    labels = [(x, y, z) for x in range(2) for y in range(2) for z in range(13)]
    hidden = np.array([0.5 if z == 1 else 1.0 for _, _, z in labels])
    assert set(grid_of(labels).panel[hidden < 1.0]) == {-1}
    figure = drawn(labels, hidden)
    assert dots(figure) == 0 and legend(figure) == ["only"]
    figure = drawn(labels, np.where(np.arange(len(labels)) == 0, 0.5, 1.0))
    assert dots(figure) == 1 and legend(figure) == ["only", "randomises"]


def test_axes_and_panels_say_what_they_are_of() -> None:
    def named(labels, stages=1):
        panels = [panel for panel in drawn(labels, np.ones(len(labels)), stages).axes if panel.axison]
        return [(panel.get_xlabel(), panel.get_ylabel(), panel.get_title()) for panel in panels]

    assert named([3, 1, 2]) == [("state", "", "")]
    assert named([3, 1, 2], stages=2) == [("state", "stage", "")]
    assert named([(0, "dry"), (1, "wet")]) == [("state 1", "state 2", "")]
    four = named([(x, x, 6, 8 + z) for x in range(2) for z in range(2)])
    assert four == [("state 1", "state 2", f"state 3 = 6, state 4 = {z}") for z in (8, 9)]
    staged = named([(x, y) for x in range(2) for y in range(2)], stages=2)
    assert staged == [("state 1", "state 2", f"stage {h}") for h in range(2)]
    deep = named([(x, x, 6) for x in range(2)], stages=2)
    assert deep == [("state 1", "state 2", f"stage {h}, state 3 = 6") for h in range(2)]
    figure = occupancy_figure([(0, 0), (1, 1)], np.array([[0.25, 0.75]]))
    assert figure.axes[0].get_xlabel() == "state 1" and figure.axes[0].get_ylabel() == "state 2"
