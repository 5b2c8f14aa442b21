"""Tables: the same text wherever they are printed."""

import pytest

from inbounds.tables import text_table

ROWS = [("[red]service[/red]", "at least 0", "+0.25"), (":queue:" + 150 * " long", "", "-1,000.5")]
"""What looks like markup, a row wider than any terminal, an empty cell."""


def test_words_are_left_numbers_right_and_nothing_is_cut_or_left_hanging() -> None:
    lines = text_table(("name", "bound", "margin"), ROWS).split("\n")
    assert len(lines) == 4 and not any(line != line.rstrip() for line in lines)
    name = len(ROWS[1][0])
    assert lines[0] == f"{'name':<{name}}  bound         margin"
    assert lines[1] == f"{'-' * name}  ----------  --------"
    assert lines[2] == f"{ROWS[0][0]:<{name}}  at least 0     +0.25"
    assert lines[3] == f"{ROWS[1][0]}              -1,000.5"


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
