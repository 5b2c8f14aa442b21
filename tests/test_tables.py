"""Tables: the same text wherever they are printed."""

import re
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, FloatOperation, localcontext
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.cells import cell_len

import inbounds as ib
from inbounds.cli import main
from inbounds.exact.limits import Partial
from inbounds.reports import page as pages
from inbounds.tables import html_card, html_table, kept_in_digits, outwards, printable, text_table

ROWS = [("[red]service[/red]", "at least 0", "+0.25"), (":queue:" + 150 * " long", "", "-1,000.5")]
"""What looks like markup, a row wider than any terminal, an empty cell."""


def test_words_are_left_and_numbers_right() -> None:
    rows = [("[red]service[/red]", "at least 0", "+0.25"), (":queue:", "", "-1,000.5")]
    assert text_table(("name", "bound", "margin"), rows).split("\n") == [
        "name                bound         margin",
        "------------------  ----------  --------",
        "[red]service[/red]  at least 0     +0.25",
        ":queue:                         -1,000.5",
    ]


def test_what_is_too_wide_goes_on_below_and_nothing_is_cut() -> None:
    table = text_table(("name", "bound", "margin"), ROWS)
    lines = table.split("\n")
    assert max(map(len, lines)) == 80 and not any(line != line.rstrip() for line in lines)
    assert table.count("long") == 150 and sum("-1,000.5" in line for line in lines) == 1
    header = ("algorithm", *(f"a number {k}" for k in range(9)))
    several = text_table(header, [("one", *(f"{k}.123456789" for k in range(9)))])
    assert max(map(len, several.split("\n"))) <= 80 and several.count("one") == several.count("algorithm") == 2
    assert all(f"{k}.123456789" in several for k in range(9))


@pytest.mark.parametrize("name", [79 * "a", 40 * "名", 300 * "a", 79 * "9"], ids=["79", "wide", "300", "digits"])
def test_a_name_that_is_longer_than_a_line_is_broken(name: str) -> None:
    cells = [name, ">= 0.123456789", "does not help alone"]
    for header, row in (
        (("constraint", "bound", "or relax to"), cells),
        (("constraint", "how"), [name, name]),
        (("", f"bound on {name}"), ["", ">= 0.123456789"]),
        (("constraint",), [name]),
    ):
        table = text_table(header, [row])
        assert max(map(cell_len, table.split("\n"))) <= 80
        assert table.count(name[0]) == "".join([*header, *row]).count(name[0])
        assert (">= 0.123456789" in table) == (">= 0.123456789" in row)
        assert ("does not help alone" in table) == (len(header) == 3)  # one table: the name makes room for the rest


@pytest.mark.parametrize(
    "surroundings", [{"COLUMNS": "20"}, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}, {"JUPYTER_COLUMNS": "20"}]
)
def test_the_terminal_does_not_matter(surroundings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = text_table(("name", "bound", "margin"), ROWS)
    for variable, value in surroundings.items():
        monkeypatch.setenv(variable, value)
    assert text_table(("name", "bound", "margin"), ROWS) == expected and "\x1b" not in expected


def test_a_table_without_rows_is_its_heading() -> None:
    assert text_table(("name", "margin"), []) == "name  margin\n----  ------"


def test_what_notebooks_show_is_escaped_and_short() -> None:
    problem = ib.CMDP.from_dense(
        np.ones((1, 2, 1)), reward=[[0.0, 1.0]], initial=[1.0], discount=0.5, state_labels=["<b>"],
        action_labels=["&", "b"], constraints=[ib.Constraint([[0.0, 1.0]], at_most=0.5, name="a<c")],
    )  # fmt: skip
    assert "a&lt;c" in problem._repr_html_() and "&lt;= 0.5" in problem._repr_html_()
    shown = ib.Policy.uniform(problem)._repr_html_()
    assert "&lt;b&gt;" in shown and "&amp; 0.5, b 0.5" in shown and "<b>Policy" in shown
    media = ib.Policy.uniform(ib.zoo.media())._repr_html_()
    assert media.count("<tr>") == 101 and "stage" in media
    large = ib.Policy.uniform(ib.zoo.hazard_grid())._repr_html_()
    assert "64 states in all" in large and len(large) < 20_000


def test_runs_mixtures_and_frontiers_are_shown() -> None:
    queue = ib.zoo.queue()
    uniform = ib.Policy.uniform(queue)
    seen = ib.simulate(queue, uniform, steps=3, runs=2)._repr_html_()
    assert "<b>Trajectories(2 runs of 3 steps)</b>" in seen and "<td>service</td>" in seen and "95 % interval" in seen
    coin = ib.Mixture([0.75, 0.25], [uniform, uniform])._repr_html_()
    assert "<td>0.75</td><td>Policy(6 states, randomises in 6)</td>" in coin
    curve = ib.frontier(queue, "service", points=3)
    assert curve._repr_html_().count("<tr>") == 4 and "bound on service" in curve._repr_html_()
    assert "&gt;= 4" in ib.frontier(queue, 0, bounds=[4.0])._repr_html_()  # no point at all


def test_answers_are_printed_and_shown() -> None:
    queue = ib.zoo.queue()
    best = ib.solve(queue)
    lines = str(best).splitlines()
    assert lines[0].startswith("reward 2.322429124, at most") and "randomises in 2" in " ".join(lines[:2])
    assert lines[3].split() == ["constraint", "bound", "margin", "price"] and lines[5].startswith("service")
    assert len(best.certificate.verdict) > 80 and max(map(len, lines)) <= 80
    assert " ".join(lines[-2:]) == best.certificate.verdict
    assert "<table>" in best._repr_html_() and best.certificate.verdict in best._repr_html_()
    assert "rounding bounded" in best.certificate._repr_html_()
    assert "<table>" not in ib.solve(queue.unconstrained())._repr_html_()
    found = ib.compare(queue, ["crpo", "ucbvi-gamma"], samples=2_000, seeds=2, workers=1)
    assert "<td>crpo</td>" in found._repr_html_() and "out of bounds" in found._repr_html_()
    with pytest.raises(ib.Infeasible) as none:
        ib.solve(queue.tightened(1.0))
    assert none.value.prices is not None


ODD = "go\x1b[2K\x07\r\nACCEPTED\u202e"
"""A name that would delete the line, ring, go back, begin another line, and turn it round."""


def test_a_name_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    """The two states, the action, the constraint and the model are called so."""
    model = ib.build(
        start=ODD,
        actions=lambda state: [ODD, "stay"],
        transitions=lambda state, action: [("there" if action == ODD else state, 1.0)],
        reward=lambda state, action: float(state == "there"),
        constraints=[ib.Constraint(lambda state, action: float(action == "stay"), at_most=0.5, name=ODD)],
        discount=0.9,
        name=ODD,
    )
    best = ib.solve(model)
    staying = ib.Policy.from_rule(model, lambda state: "stay")
    out = ib.evaluate(model.with_bound(ODD, at_most=0.1), staying)
    known = [model, best, best.certificate, out, best.policy.compare(staying), best.sensitivities]
    model.save(tmp_path / "model.npz")
    commands = [
        ("solve", "--policy", "--bound", f"{ODD}=0.25", "--certificate", str(tmp_path / "proof.json")),
        ("solve", "--bound", f"{ODD}=-1"),
        ("frontier", "--constraint", ODD, "--output", str(tmp_path / "frontier")),
        ("learn", "--certified", "--samples", "3000"),
    ]
    for command, *options in commands:
        done = CliRunner().invoke(main, [command, str(tmp_path / "model.npz"), *options], color=True)
        assert done.exit_code in (0, 3, 4), done.output
        known.append(done.output)
    for shown in known:
        assert "go" in f"{shown}" and not {letter for letter in f"{shown}" if not letter.isprintable()} - {"\n"}
        assert not any(line.startswith("ACCEPTED") for line in f"{shown}".split("\n"))


def test_letters_that_join_are_left_as_they_are() -> None:
    family = "\N{MAN}\N{ZERO WIDTH JOINER}\N{GIRL}\N{NO-BREAK SPACE}x"
    assert printable(family) == family


def test_what_turns_a_line_round_is_written_out_on_a_page_too() -> None:
    turned = "a\N{RIGHT-TO-LEFT OVERRIDE}<b>"
    for page in (html_table((turned,), [(turned,)]), html_card(turned)):
        assert "a\\u202e&lt;b&gt;" in page and "\N{RIGHT-TO-LEFT OVERRIDE}" not in page


@pytest.mark.parametrize("digits", [2, 3, 6])
def test_the_digits_of_a_bound_hold_and_are_the_nearest_that_do(digits: int) -> None:
    rng = np.random.default_rng(0)
    drawn = 10.0 ** rng.uniform(-12.0, 12.0, 500) * rng.choice([-1.0, 1.0], 500)
    for bound in [0.0, 1.0, -0.0123, 9.999999, -9.9999999, 1.0 - 1e-15, 1e300, *drawn.tolist()]:
        for at_least, side in ((True, ROUND_FLOOR), (False, ROUND_CEILING)):
            nearest = Context(prec=digits, rounding=side).create_decimal(repr(bound))
            assert Decimal(kept_in_digits(bound, at_least, 0.0, digits)) == nearest
    assert kept_in_digits(np.inf, False, 0.0) == kept_in_digits(np.inf, False, np.inf) == "inf"


def test_what_is_said_to_be_at_most_so_much_is_rounded_up(tmp_path: Path) -> None:
    """(It was rounded to the nearest: 1.24e-3 below the best was "at most 1.2e-03 below".)"""
    queue = ib.zoo.queue()
    best = ib.solve(queue)
    known = replace(best, upper_bound=best.reward + 1.24e-3)
    least = re.search(r"at most (\S+) below the best", str(known))
    assert least is not None and known.gap <= Decimal(least[1]) <= Decimal("0.0013")
    partial = Partial("time limit", upper=1.0000004, unconstrained_solves=3)
    assert "the optimum is at most 1.00001" in partial.in_words
    assert partial.so_far.endswith("is at most 1.00001")
    text = pages.page(
        queue, known, None, pages.MovedBounds([], [], []), None, "queue", ["a", "b", "c"], False, ("", ())
    )
    most = re.search(r"no policy in bounds has more than (\S+)\. The", text)
    assert most is not None and Decimal(most[1]) >= Decimal(known.upper_bound)


def test_bounds_are_printed_whatever_decimals_may_do_elsewhere():
    with localcontext() as context:
        context.traps[FloatOperation] = True
        assert outwards(0.1, up=True, digits=17) == "0.10000000000000001"
