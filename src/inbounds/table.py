"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest entry: words to the left, columns of numbers to the right.

    Examples
    --------
    >>> print(text_table(("constraint", "margin"), [("service", "+0.5"), ("flow", "-1.25")]))
    constraint  margin
    ----------  ------
    service       +0.5
    flow         -1.25
    """
    columns = range(len(header))
    widths = [max(len(row[column]) for row in [header, *rows]) for column in columns]
    numeric = [all(row[column][:1] in "0123456789+-<>" for row in rows) for column in columns]
    lines = []
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [
            row[column].rjust(widths[column]) if numeric[column] else row[column].ljust(widths[column])
            for column in columns
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
