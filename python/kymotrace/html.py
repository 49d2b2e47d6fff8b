# SPDX-License-Identifier: MIT OR Apache-2.0
"""Displays in Jupyter: tables and bars, without scripts. All text is escaped: names in a trace are a program's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_CELL = "style='text-align:left;white-space:nowrap;max-width:40em;overflow:hidden;text-overflow:ellipsis'"


def text(value: Any) -> str:
    """A value as a cell shows it."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) < 10**15 else str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dt.datetime):
        # The nanoseconds that pandas and pyarrow keep beside it are shown, too.
        return str(value)
    return str(value)


def table(title: str, names: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a title."""
    head = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td {_CELL}>{escape(text(value))}</td>" for value in row) + "</tr>" for row in rows
    )
    title = f"<caption style='text-align:left'>{escape(title)}</caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bar(share: float) -> str:
    """A bar of this share of a cell."""
    percent = min(max(share, 0.0), 1.0) * 100
    return (
        "<div style='width:12em'><div style='background:#4878a8;height:0.8em;"
        f"width:{percent:.1f}%'></div></div>"
    )


def raw_table(names: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td {_CELL}>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
