"""Tables as plain text, one look for certificates, diagnoses and commands; and for pages and notebooks as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest entry, whatever the terminal: words to the left, columns of numbers to the right.

    Examples
    --------
    >>> print(text_table(("constraint", "margin"), [("service", "+0.5"), ("flow", "-1.25")]))
    constraint  margin
    ----------  ------
    service       +0.5
    flow         -1.25
    """
    import io

    from rich.console import Console
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for column in range(len(header)):
        numbers = all(row[column][:1] in "0123456789+-<>" for row in rows)
        table.add_column(justify="right" if numbers else "left", no_wrap=True)
    table.add_row(*(Text(cell) for cell in header))  # a Text, so that brackets in a name are not taken for markup
    table.add_row(*(Rule(characters="-", style="") for _ in header))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # Neither the terminal, its colours nor a notebook may change what is returned.
    page = io.StringIO()
    Console(file=page, width=1_000_000, color_system=None, force_terminal=False, force_jupyter=False).print(table)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first `words` columns are texts, the others numbers, in HTML; every text is escaped.

    >>> html_table(("bound", "price"), [("a<b", "2")]).partition("<tbody>")[2]
    '<tr><td>a&lt;b</td><td class="n">2</td></tr></tbody></table>'
    """

    def row(tag: str, cells: Sequence[str]) -> str:
        kinds = ["" if place < words else ' class="n"' for place in range(len(cells))]
        inside = (f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    return f"<table><thead>{row('th', header)}</thead><tbody>{''.join(row('td', own) for own in rows)}</tbody></table>"


def html_card(title: str, *parts: str) -> str:
    """What a notebook shows of a record: its title, escaped, and parts in HTML."""
    return f"<div><p><b>{html.escape(title)}</b></p>{''.join(parts)}</div>"
