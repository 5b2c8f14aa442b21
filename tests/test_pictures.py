"""Pictures of policies: what the axes are, and where they randomise."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.text import Text

import inbounds as ib
from inbounds.pictures import grid_of, occupancy_figure, policy_figure, ruled, titled
from inbounds.reports import figures as reported


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


def test_letters_that_the_font_lacks_are_no_warning(tmp_path) -> None:
    coin = ib.CMDP(
        offsets=[0, 1, 2],
        transition=[[0.5, 0.5]] * 2,
        reward=[0.0, 1.0],
        constraints=(),
        initial=[1.0, 0.0],
        discount=0.5,
        state_labels=("漢", "b"),
    )
    ib.Policy.uniform(coin).plot(tmp_path / "letters.png")
    assert (tmp_path / "letters.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("values", "most", "shown"),
    [
        (range(33), 8, [0, 5, 10, 15, 20, 25, 30]),
        (range(4, 19), 9, [4, 6, 8, 10, 12, 14, 16, 18]),
        ([k / 10 for k in range(31)], 7, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]),
        (range(-1_000, 1_001), 6, [-1_000, -500, 0, 500, 1_000]),
        ([1, 4, 9], 5, [1, 4, 9]),
        ([3, 7, 13, 17, 23, 27, 33, 37], 4, [3, 13, 23, 33]),  # none of them is round
        (list("abcdefg"), 3, ["a", "d", "g"]),
        ([], 3, []),
    ],
)
def test_ticks_are_even_steps_as_on_a_ruler(values, most, shown) -> None:
    assert [values[place] for place in ruled(values, most)] == shown


def test_no_two_ticks_touch() -> None:
    """In the narrow panels of a figure with six of them."""
    labels = [(beds, waiting, day) for beds in range(4, 119) for waiting in range(40) for day in range(6)]
    figure = drawn(labels, np.ones(len(labels)))
    figure.draw_without_rendering()
    for panel in figure.axes:
        boxes = [text.get_window_extent() for text in panel.get_xticklabels()]
        assert len(boxes) > 3 and all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_panels_are_where_the_time_is_spent_or_most_states_are() -> None:
    labels = [(x, y, z, z) for z in range(20) for x in range(2) for y in range(2 if z in (3, 7) else 1)]
    assert [panel for panel in grid_of(labels).panels if panel.startswith(("state 3 = 3,", "state 3 = 7,"))] == [
        "state 3 = 3, state 4 = 3",
        "state 3 = 7, state 4 = 7",
    ]
    time = np.array([1.0 if z in (4, 11) else 1e-6 * z for _, _, z, _ in labels])
    spent = grid_of(labels, time)
    assert {"state 3 = 4, state 4 = 4", "state 3 = 11, state 4 = 11"} <= set(spent.panels) and len(spent.panels) == 6
    assert spent.panels[spent.main] == "state 3 = 4, state 4 = 4"


def test_the_legend_has_what_is_drawn_and_nothing_else() -> None:
    labels = [(x, y, z) for x in range(2) for y in range(2) for z in range(20)]
    chosen = np.array([[1 if z == 5 else 2 if z == 19 else 0 for _, _, z in labels]])
    sure, time = np.ones(chosen.shape), np.array([[float(z == 5) for _, _, z in labels]])
    names = ["none", "hidden", "last"]
    assert legend(policy_figure(labels, names, chosen, sure)) == ["none", "last"]  # 5 is not among those shown
    assert "hidden" in legend(policy_figure(labels, names, chosen, sure, time))


def test_the_time_chooses_the_panels_of_a_policy() -> None:
    steps = [(x, y, z) for x in range(2) for y in range(2) for z in range(20)]
    problem = ib.build(
        steps, lambda s: ["on"], lambda s, a: [((*s[:2], 13), 1.0)], reward=lambda s, a: 0.0, discount=0.9
    )
    policy = ib.Policy.uniform(problem)
    titles = [panel.get_title() for panel in policy.plot(occupancy=ib.evaluate(problem, policy)).axes]
    assert "state 3 = 13" in titles and "state 3 = 13" not in [panel.get_title() for panel in policy.plot().axes]
    with pytest.raises(ib.InvalidInput, match="the occupancy must be numbers >= 0, all finite, of shape"):
        policy.plot(occupancy=[1.0])


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


def titles(problem):
    """Of every picture that a problem and its answer have."""
    best = ib.solve(problem)
    curve, both = ib.frontier(problem, 0, points=3), ib.surface(problem, 0, 1, bounds=([0.0], [0.0]))
    maps = [best.policy.plot(), best.plot(), ib.evaluate(problem, ib.Policy.uniform(problem)).plot()]
    panels = [figure.axes[0] for figure in (curve.plot(), both.plot())]
    return [figure.get_suptitle() for figure in maps] + [panel.get_title() for panel in panels]


def test_titles_say_what_the_problem_is_called() -> None:
    queue = ib.zoo.queue()
    assert all(title.startswith("queue: ") for title in titles(queue))
    unnamed = titles(replace(queue, name=""))
    assert [f"queue: {title}" for title in unnamed] == titles(queue) and not any(":" in title[:12] for title in unnamed)
    assert ib.solve(queue.with_bound("service", at_least=0.1)).policy.plot().get_suptitle().startswith("queue: ")


def test_a_long_name_has_a_line_of_its_own_and_a_dollar_is_no_formula() -> None:
    assert titled("the time", "x" * 24) == f"{'x' * 24}: the time"
    assert titled("the time", "x" * 25) == f"{'x' * 25}:\nthe time"
    assert titled("the time", "x" * 61) == f"{'x' * 59}…:\nthe time"
    assert titled("the time", "in $") == r"in \$: the time" and titled("the time", "  ") == "the time"


@pytest.mark.parametrize("name", ["$$", r"$\nosuch$", "a $5 b $6", r"\$", "_漢"])
def test_a_name_is_drawn_letter_by_letter_wherever_it_stands(name, tmp_path) -> None:
    chances = np.full((3, 2, 3), 1 / 3)
    costs = [ib.Constraint(np.eye(3)[:, :2] + k, at_most=0.4 + k, name=name + "," * k) for k in range(2)]
    plain = ib.CMDP.from_dense(
        chances, reward=np.ones((3, 2)), constraints=costs, initial=np.ones(3) / 3, discount=0.9, name=name
    )
    labels = tuple((name, k, k) for k in range(3))
    problem = replace(plain, state_labels=labels, action_labels=(name, name + "2"))
    best = ib.solve(problem)
    figures = [
        ib.Policy.uniform(problem).plot(tmp_path / "policy.svg"),
        best.plot(tmp_path / "time.png"),
        ib.frontier(problem, 0, points=2).plot(tmp_path / "frontier.png"),
        ib.surface(problem, 0, 1, points=2).plot(tmp_path / "surface.png"),
    ]
    reported.write_report(tmp_path, reported.drawn({"reported": figures[2]}, {}))
    for text in (text for figure in figures for text in figure.findobj(Text)):
        assert not text._preprocess_math(text.get_text())[1] or "mathdefault" in text.get_text()  # ticks of a log axis
    shown = [text._preprocess_math(text.get_text())[0] for text in figures[0].legends[0].get_texts()]
    assert shown == [name, "randomises"]


def test_the_present_bound_crosses_no_words() -> None:
    """Next to the last bound that can be kept, and next to the first that matters."""
    for bound in (0.7, -4.6):
        figure = ib.frontier(ib.zoo.queue().with_bound("service", at_least=bound), 0, points=12).plot()
        figure.draw_without_rendering()
        panel = figure.axes[0]
        lines = [line.get_window_extent() for line in panel.lines if set(line.get_xdata()) == {bound}]
        words = [text for text in panel.texts if "now" not in text.get_text()]
        assert len(lines) == 1 and len(words) == 2
        assert not any(text.get_window_extent().overlaps(lines[0]) for text in words)


def test_each_stage_has_the_panel_of_its_own_time() -> None:
    labels = [(x, y, z) for x in range(2) for y in range(2) for z in range(20)]
    time = np.zeros((14, len(labels)))
    for stage in range(14):
        time[stage, [z == stage + 3 for _, _, z in labels]] = 0.25
    chosen = np.zeros(time.shape, dtype=np.int64)
    for figure in (policy_figure(labels, ["on"], chosen, np.ones(time.shape), time), occupancy_figure(labels, time)):
        panels = [panel.get_title() for panel in figure.axes if panel.get_title()]
        assert panels == [f"stage {h}, state 3 = {h + 3}" for h in (0, 3, 5, 8, 10, 13)]


def test_the_title_says_how_much_is_drawn() -> None:
    def title(labels, stages=1):
        return drawn(labels, np.ones(len(labels)), stages).get_suptitle()

    deep = [(x, y, z) for x in range(2) for y in range(5) for z in range(700)]
    assert title(deep) == "the likeliest action in 60 of 7,000 states: 6 of 700 panels"
    assert title(deep, stages=3) == "the likeliest action in 30 of 21,000 states by stage: 3 of 2,100 panels"
    flat = [(x, y) for x in range(5) for y in range(8)]
    assert title(flat) == "the likeliest action in each of 40 states"
    assert title(flat, stages=3) == "the likeliest action in each of 40 states, stage by stage"
    assert title(flat, stages=7) == "the likeliest action in 240 of 280 states by stage: 6 of 7 panels"
    assert title([0]) == "the likeliest action in each of 1 state"
    assert (
        occupancy_figure(deep, np.ones((1, 7_000))).get_suptitle() == "the time in 60 of 7,000 states: 6 of 700 panels"
    )


def test_many_actions_have_their_names_the_most_frequent_first() -> None:
    """Sixteen colours for the actions of most states, and one for the others."""
    actions = [(u, p) for u in range(4) for p in range(6)]
    chosen = np.array([[k for k in range(24) for _ in range(k + 1)]])
    figure = policy_figure(list(range(chosen.size)), actions, chosen, np.ones(chosen.shape))
    columns = figure.legends[0]._ncols
    by_rows = [legend(figure)[start] for start in _row_by_row(17, columns)]
    assert by_rows == [str(actions[k]) for k in range(23, 7, -1)] + ["8 other actions"] and len(figure.axes) == 1
    image = figure.axes[0].images[0]
    colours = image.cmap(image.norm(image.get_array()))[0]
    assert len({tuple(colour) for colour in colours}) == 17 and len({tuple(c) for c in colours[chosen[0] < 8]}) == 1
    numbers = policy_figure(list(range(chosen.size)), list(range(24)), chosen, np.ones(chosen.shape))
    assert not numbers.legends and numbers.axes[1].get_ylabel() == "action"


def _row_by_row(entries, columns):
    """Of a legend, which is filled by columns, the places of its texts as they are read."""
    filled = np.array_split(np.arange(entries), columns)
    return [int(column[row]) for row in range(len(filled[0])) for column in filled if row < len(column)]


def test_a_legend_fits_and_is_read_row_by_row() -> None:
    actions = [f"action number {k} {'of a long name' * 5}" for k in range(12)]
    figure = policy_figure(list(range(12)), actions, np.arange(12)[None], np.ones((1, 12)))
    texts = legend(figure)
    assert [texts[k] for k in _row_by_row(12, figure.legends[0]._ncols)] == [f"{name[:39]}…" for name in actions]
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert figure.legends[0]._ncols > 1 and box.x0 >= 0 and box.x1 <= figure.bbox.x1


ODD = "$a_1$ \N{RIGHT-TO-LEFT OVERRIDE}" + "n" * 300


def _odd_problem() -> ib.CMDP:
    coin = ib.Constraint([0.0, 1.0, 0.0, 1.0], at_most=0.5, name=ODD)
    return ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[0.5, 0.5]] * 4,
        reward=[0.0, 1.0, 0.2, 0.9],
        constraints=[coin, replace(coin, signal=[0.3, 0.7, 0.1, 0.6], name="other")],
        initial=[1.0, 0.0],
        discount=0.5,
        action_labels=("_a", ODD),
        name=ODD[:20],
    )


def test_names_are_written_out_and_cut_in_every_picture() -> None:
    """None may turn a line round, be taken for a formula, or run off the page."""
    problem = _odd_problem()
    for figure in (
        ib.solve(problem).policy.plot(),
        ib.frontier(problem, 0, 4).plot(),
        ib.surface(problem, 0, 1, 3).plot(),
    ):
        figure.savefig(io.BytesIO(), format="png", dpi=100)
        texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
        assert any(r"\$a_1\$ \u202en" in text.get_text() for text in texts)
        assert all("\u202e" not in text.get_text() for text in texts)
        for text in texts:
            box = text.get_window_extent()
            assert box.width <= figure.bbox.width and box.height <= figure.bbox.height, text


def test_no_number_on_a_line_is_cut_by_the_edge() -> None:
    figure = ib.surface(_odd_problem(), 0, 1, 6).plot()
    figure.savefig(io.BytesIO(), format="png", dpi=100)
    panel = figure.axes[0]
    numbers = [text for text in panel.texts if text.get_text().replace(".", "").isdigit()]
    assert numbers
    for text in numbers:
        here = panel.transAxes.inverted().transform(panel.transData.transform(text.get_position()))
        assert np.all(np.abs(here - 0.5) <= 0.475), text
