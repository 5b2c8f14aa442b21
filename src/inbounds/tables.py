"""Tables as plain text, one look for certificates, diagnoses and commands; and for pages and notebooks as HTML."""

from __future__ import annotations

import decimal
import html
import math
import os
from collections.abc import Iterable, Sequence

WIDTH = 80
"""Columns of a terminal that nobody has widened: no line of a table, or of a command's sentences, is longer."""

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""A header, and rows of texts."""

_BETWEEN = 2
"""Blanks between two columns."""

_SHAPING = "\N{NO-BREAK SPACE}\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""What Python does not call printable, and text is made of all the same."""


def in_unicode(name: str | os.PathLike[str]) -> str:
    """A name as text: letters beyond ASCII that Python, told that there are none, hid in halves of characters are back.

    In the locale C the name of a file, or a word of a command, has such a half for each of their bytes.

    >>> in_unicode("m\\udcc3\\udcb6del.toml"), in_unicode("model.toml")
    ('mödel.toml', 'model.toml')
    """
    letters = os.fspath(name)
    try:
        return letters.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # halves that are of no byte
        return letters


def printable(name: str | os.PathLike[str]) -> str:
    """A name of a file, a constraint or a state for a terminal: a line feed in it would make two messages of one.

    What else would not be seen, but move the cursor or turn the line round, is written as Python does.

    >>> printable("my files/a\\nb.toml"), printable("safe\\x1b[2K")
    ('my files/a\\\\nb.toml', 'safe\\\\x1b[2K')
    """
    letters = in_unicode(name)
    return "".join(one if one.isprintable() or one in _SHAPING else ascii(one)[1:-1] for one in letters)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, within 80 characters whatever the terminal: words to the left, numbers to the right.

    Where that is too narrow, words and headings go on in the next line; where it still is, the last columns follow as a
    table of their own, with the first column again. Where not even two columns have room, words are broken.

    Examples
    --------
    >>> print(text_table(("constraint", "margin"), [("service", "+0.5"), ("flow", "-1.25")]))
    constraint  margin
    ----------  ------
    service       +0.5
    flow         -1.25
    """
    from rich.cells import cell_len

    columns = [[printable(row[place]) for row in (header, *rows)] for place in range(len(header))]
    right = [all(cell[:1] in "0123456789+-<>" for cell in column[1:]) for column in columns]

    def longest(texts: Sequence[str]) -> int:
        return max(map(cell_len, texts), default=0)

    def fits(widths: Sequence[int]) -> bool:
        return sum(widths) + _BETWEEN * (len(widths) - 1) <= WIDTH

    # The least width keeps numbers whole, and words.
    least = [
        max(longest(column[0].split()), longest(column[1:]) if numbers else longest(" ".join(column).split()))
        for column, numbers in zip(columns, right, strict=True)
    ]
    if not fits(least[:2]):  # half of the line each, in which any word may be broken
        least = [min(n, (WIDTH - _BETWEEN) // 2) for n in least]
    fit = next((n for n in range(len(columns), 2, -1) if fits(least[:n])), 2)
    if fit < len(columns):
        places = [0, *range(fit, len(columns))]
        rest = text_table([header[k] for k in places], [[row[k] for k in places] for row in rows])
        return text_table(header[:fit], [row[:fit] for row in rows]) + "\n\n" + rest
    widths = [longest(column) for column in columns]
    while not fits(widths):
        widths[max((k for k, n in enumerate(least) if widths[k] > n), key=lambda k: widths[k])] -= 1
    return _rendered(columns, widths, right)


def _rendered(columns: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> str:
    """Columns of given widths, the heading and a line below it first."""
    import io

    from rich.console import Console
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, _BETWEEN, 0, 0), pad_edge=False, show_header=False)
    for width, numbers in zip(widths, right, strict=True):
        table.add_column(justify="right" if numbers else "left", width=width, overflow="fold")
    first, *rows = zip(*columns, strict=True)
    table.add_row(*(Text(cell) for cell in first))  # a Text, so that brackets in a name are not taken for markup
    table.add_row(*(Rule(characters="-", style="") for _ in first))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # Neither the terminal, its colours nor a notebook may change what is returned.
    page = io.StringIO()
    Console(file=page, width=1_000_000, color_system=None, force_terminal=False, force_jupyter=False).print(table)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def wrapped(text: str, indent: str = "", width: int = WIDTH) -> str:
    """Sentences on lines as wide as a table, or as `width` says; names stay whole, and lines that fit as they are.

    `indent` stands before the lines that go on. Of what is not printable only line feeds do what they say.
    """
    import textwrap

    whole = textwrap.TextWrapper(width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(whole.fill(printable(line)) for line in text.split("\n"))


def so_many(number: int, noun: str) -> str:
    """So many of something.

    >>> so_many(1, "pair"), so_many(2_000, "pair")
    ('1 pair', '2,000 pairs')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def so_many_of(numbers: Iterable[int], asked: int, noun: str) -> str:
    """How many of those that were asked for each of several has: all of them, or from the fewest to the most.

    >>> so_many_of([20, 20], 20, "run"), so_many_of([2, 1, 2], 20, "run"), so_many_of([], 1, "run")
    ('20 runs', '1 to 2 of 20 runs', '0 of 1 run')
    """
    found = sorted(numbers) or [0]
    if found[0] == asked:
        return so_many(asked, noun)
    span = f"{found[0]:,}" if found[0] == found[-1] else f"{found[0]:,} to {found[-1]:,}"
    return f"{span} of {so_many(asked, noun)}"


def rounded_up(number: float) -> int:
    """A whole number of two digits and zeros, no less: that is all that a prediction is worth.

    >>> rounded_up(1_333.3), rounded_up(12.0), rounded_up(7.5)
    (1400, 12, 8)
    """
    unit: int = 10 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0)
    return math.ceil(number / unit) * unit


def as_given(number: float) -> str:
    """A number of the user's own, in as many digits as say it: what is proved is proved of it, and of none next to it.

    >>> as_given(0.1), as_given(1e6), as_given(1_234_567.0), as_given(1 - 2**-53)
    ('0.1', '1e+06', '1234567', '0.9999999999999999')
    """
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number)).removesuffix(".0")


def outwards(bound: float, up: bool = False, digits: int = 6) -> str:
    """So many digits of what is proved, so that what is printed is proved too: rounded down, or up, to the last bit.

    In decimal throughout: a float that is rounded the right way may be printed the wrong way, from 16 digits on.

    >>> outwards(0.12345678), outwards(0.12345678, up=True), outwards(float("-inf")), outwards(-1.5e-7, digits=1)
    ('0.123456', '0.123457', '-inf', '-2e-07')
    >>> outwards(0.1, digits=17), outwards(0.1, up=True, digits=17)  # of 0.1000000000000000055
    ('0.1', '0.10000000000000001')
    """
    if not math.isfinite(bound):
        return str(float(bound))
    rounding = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR)
    number = rounding.normalize(decimal.Decimal.from_float(float(bound)))
    exponent = number.adjusted()
    if -4 <= exponent < digits:  # as floats are printed
        return f"{number:f}"
    return f"{number.scaleb(-exponent, rounding):f}e{exponent:+03d}"


def kept_in_digits(bound: float, at_least: bool, rounding: float, digits: int = 6) -> str:
    """So many digits of a bound that can be kept which can be kept too, up to `rounding`; what is zero to that is zero.

    >>> kept_in_digits(0.98765472, True, 1e-9), kept_in_digits(0.98765472, False, 1e-9)
    ('0.987654', '0.987655')
    >>> kept_in_digits(1.0 - 1e-15, True, 1e-12)
    '1'
    >>> kept_in_digits(-0.01232, True, 0.0, digits=3)
    '-0.0124'
    """
    text = "0" if abs(bound) <= rounding < math.inf else f"{bound:.{digits}g}"
    tighter = (1.0 if at_least else -1.0) * (float(text) - bound)
    return outwards(bound, not at_least, digits) if tighter > rounding else text


def escaped(text: str) -> str:
    """A text for a page: what would be markup, or would turn the line round, is written out.

    >>> escaped("a<b"), escaped("\N{RIGHT-TO-LEFT OVERRIDE}abc")
    ('a&lt;b', '\\\\u202eabc')
    """
    return html.escape(printable(text))


_LONG = 60
"""Characters of a text that a page may break into lines, so that what stands beside it stays in sight."""


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first `words` columns are texts, the others numbers, in HTML; every text is escaped.

    >>> html_table(("bound", "price"), [("a<b", "2")]).partition("<tbody>")[2]
    '<tr><td>a&lt;b</td><td class="n">2</td></tr></tbody></table>'
    """

    def kind(place: int, cell: str) -> str:
        return ' class="n"' if place >= words else ' class="long"' if len(cell) > _LONG else ""

    def row(tag: str, cells: Sequence[str]) -> str:
        inside = (f"<{tag}{kind(place, cell)}>{escaped(cell)}</{tag}>" for place, cell in enumerate(cells))
        return f"<tr>{''.join(inside)}</tr>"

    return f"<table><thead>{row('th', header)}</thead><tbody>{''.join(row('td', own) for own in rows)}</tbody></table>"


def html_card(title: str, *parts: str) -> str:
    """What a notebook shows of a record: its title, escaped, and parts in HTML."""
    return f"<div><p><b>{escaped(title)}</b></p>{''.join(parts)}</div>"
