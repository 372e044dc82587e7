"""Writing tables: to CSV, Parquet, Excel and HTML files, to a database, and as CSV to stdout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options
from scumble.model.errors import ParameterError, ScumbleError, writing
from scumble.model.long_work import tell
from scumble.model.relational import is_address

if TYPE_CHECKING:
    import pyarrow as pa

    from scumble.public.estimate import Estimate, Estimates
    from scumble.public.estimate_table import EstimateTable

_AT_ONCE, _ROW_GROUP = 1 << 18, 1 << 20  # rows of CSV and of Parquet that are written at once
_FEW = 1 << 12  # of a sheet and a page
_EXCEL_ROWS, _EXCEL_COLUMNS = (1 << 20) - 1, 1 << 14  # of a sheet, the header left out
_EXCEL_DIGITS = 2**53  # from here on, numbers are rounded
_SHEET_CHARACTERS = 32_767  # of a cell
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 2rem }}
table {{ border-collapse: collapse }}
th, td {{ padding: .2rem .8rem; border-bottom: 1px solid #8885; text-align: left }}
.number {{ text-align: right; font-variant-numeric: tabular-nums }}
</style></head><body><table>
"""

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="A .csv, .parquet, .xlsx or .html file, postgresql://user@host/database/schema.name, "
        "or sqlite:///file.db/name.  [default: stdout]",
    ),
]


def check_output(output: str | None, *, force: bool) -> None:
    """Raise an error if a table cannot be written there, or if something is there that may stay.

    Nothing is written. None is stdout.
    """
    if output is None:
        return
    if is_address(output):
        from scumble.public.archive.row_tables import check_rows

        check_rows(output, force=force)
        return
    path = Path(output)
    if path.suffix.lower() not in _WRITERS:
        raise ParameterError(
            f"'{path}' must end in .csv, .parquet, .xlsx or .html. A table in a database is "
            "postgresql://user@host/database/schema.name or sqlite:///file.db/name."
        )
    if path.suffix.lower() == ".xlsx" and find_spec("openpyxl") is None:
        raise ScumbleError(
            "Excel files are written by openpyxl, which is not installed: install scumble[excel]."
        )
    options.refuse_existing(path, force=force)


def write_table(table: pa.Table, output: str | None, *, force: bool = False) -> None:
    """Write a table completely or not at all; to stdout as CSV if `output` is None."""
    if output is None:
        _write_csv(table, typer.get_binary_stream("stdout"))
        return
    if is_address(output):
        from scumble.public.archive.row_tables import write_rows

        write_rows(table, output, force=force)
        return
    path = Path(output)
    partial = path.with_name(f".{path.name}.partial")
    with writing(path):
        try:
            with bars.working("Writing rows"):
                _WRITERS[path.suffix.lower()](table, partial)
            partial.replace(path)
        finally:  # Ctrl-C leaves no half of a file
            partial.unlink(missing_ok=True)


def write_answer(
    answer: Estimate | Estimates | EstimateTable,
    level: float,
    output: str | None,
    *,
    force: bool = False,
) -> None:
    """Write an answer as a table, and say on stderr what a table has no place for."""
    write_table(answer_table(answer, level), output, force=force)
    if output is not None:
        console.say(f"Wrote {output}.")
    for note in answer.notes:
        console.say(f"Note: {note}")


# --- answers --------------------------------------------------------------------------------------


def answer_table(answer: Estimate | Estimates | EstimateTable, level: float) -> pa.Table:
    """Return an answer as a table: the groups, then value, stderr, low, high and level. Where boxes
    or bins are cut, the typical interval follows, and of chosen groups the shrunk value.

    A number that has an alias is named by it. Of several numbers each has columns of its own: n,
    n_stderr, n_low, n_high. Answers of a database have a status, and the condition that was
    answered.
    """
    import pyarrow as pa

    from scumble.public.estimate import Estimate, Estimates
    from scumble.public.estimate_table import EstimateTable, SelectedEstimates

    if isinstance(answer, Estimate):
        answer = Estimates([], [((), answer)], aliases=[answer.alias])
    if isinstance(answer, (EstimateTable, SelectedEstimates)):
        level = answer.shown_level(level)
    if isinstance(answer, EstimateTable):
        items, groups = list(answer.items), answer.groups
        rows = list(answer.rows)
        parts = [(name, f"{name}_") for name in items]
        more = [answer.more(name) for name in items]
    else:
        groups = answer.titles
        rows = [(key, (estimate,)) for key, estimate in answer.rows]
        parts = [(answer.alias or "value", "")]
        more = [(answer.bounded, answer.selected)]
    fields = [_named_fields(*part, *shown) for part, shown in zip(parts, more, strict=True)]
    taken = {name for names in fields for name in names} | {"level"}
    found: dict[str, Any] = {}
    titles = [f"group {name}" if name in taken else name for name in groups]
    keys = [answer.frame_values(key) for key, _ in rows]
    for place, (name, kind) in enumerate(answer.frame_types(titles)):
        found[name] = pa.array([key[place] for key in keys], kind)
    for place, names in enumerate(fields):
        cells = [_cells(row[place], level, *more[place]) for _, row in rows]
        for column, name in enumerate(names):
            found[name] = pa.array([each[column] for each in cells], pa.float64())
    found["level"] = pa.array([level] * len(rows), pa.float64())
    for place, (_, prefix) in enumerate(parts):
        found |= _statuses([row[place] for _, row in rows], prefix)
    return pa.table(found)


def _named_fields(name: str, prefix: str, bounded: bool, selected: bool) -> list[str]:
    typical = ["typical_low", "typical_high"] if bounded else []
    others = ["stderr", "low", "high", *typical, *(["selected_value"] if selected else [])]
    return [name, *(f"{prefix}{each}" for each in others)]


def _cells(estimate: Estimate, level: float, bounded: bool, selected: bool) -> list[float | None]:
    """Return value, standard error and limits, and what else is shown of the answer; what is not
    finite is left empty.
    """
    numbers = [float(estimate.value), float(estimate.stderr), *estimate.interval(level)]
    numbers += estimate.typical_interval(level) if bounded else ()
    found = [float(each) if math.isfinite(each) else None for each in numbers]
    return [*found, estimate.selected_value] if selected else found


def _statuses(estimates: list[Estimate], prefix: str) -> dict[str, list[str]]:
    """Return the columns that only answers of a database have."""
    if not any(each.status_label for each in estimates):
        return {}
    return {
        f"{prefix}status": [each.status_label for each in estimates],
        f"{prefix}answered": [str(getattr(each, "answered", "")) for each in estimates],
    }


# --- formats --------------------------------------------------------------------------------------


def _parts(table: pa.Table, size: int) -> Iterator[pa.Table]:
    """Yield a table in parts, between which Ctrl-C is heard and the progress is told."""
    for start in range(0, max(table.num_rows, 1), size):
        part = table.slice(start, size)
        yield part
        tell(start + part.num_rows, max(table.num_rows, 1))


def _write_csv(table: pa.Table, place: Path | IO[bytes]) -> None:
    import pyarrow.csv as csv

    with csv.CSVWriter(place, _plain(table.slice(0, 0)).schema) as writer:
        for part in _parts(table, _AT_ONCE):
            writer.write_table(_plain(part))


def _write_parquet(table: pa.Table, place: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(place, table.schema) as writer:
        for part in _parts(table, _ROW_GROUP):
            writer.write_table(part)


def _write_excel(table: pa.Table, place: Path) -> None:
    """Write one sheet. Every text is a text there: one that begins with = is no formula."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.utils.exceptions import IllegalCharacterError

    if table.num_rows > _EXCEL_ROWS or table.num_columns > _EXCEL_COLUMNS:
        raise ParameterError(
            f"A sheet of Excel has at most {_EXCEL_ROWS:,} rows and {_EXCEL_COLUMNS:,} columns, "
            "and the table has more: write .csv or .parquet."
        )
    book = Workbook(write_only=True)
    sheet = book.create_sheet("scumble")

    def cell(value: Any) -> Any:
        if isinstance(value, int) and abs(value) > _EXCEL_DIGITS:
            value = str(value)
        if not isinstance(value, str):
            return value
        try:
            found = WriteOnlyCell(sheet, value[:_SHEET_CHARACTERS])
        except IllegalCharacterError:
            found = WriteOnlyCell(sheet, console.visible(value)[:_SHEET_CHARACTERS])
        found.data_type = "s"
        return found

    for row in _rows(table):
        sheet.append([cell(value) for value in row])
    book.save(place)


def _write_html(table: pa.Table, place: Path) -> None:
    from html import escape

    import pyarrow as pa

    kinds = table.schema.types
    numbers = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds]
    marks = [' class="number"' if number else "" for number in numbers]
    with place.open("w", encoding="utf-8") as file:
        file.write(_HEAD.format(title="scumble"))
        for line, row in enumerate(_rows(table)):
            tag = "td" if line else "th"
            cells = (
                f"<{tag}{mark}>{escape(_shown(value))}</{tag}>"
                for mark, value in zip(marks, row, strict=True)
            )
            file.write(f"<tr>{''.join(cells)}</tr>\n")
        file.write("</table></body></html>\n")


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else console.visible(str(value))


def _rows(table: pa.Table) -> Iterator[Iterable[Any]]:
    """Yield the header and the rows of a table as values that a sheet can hold."""
    yield table.column_names
    for part in _parts(table, _FEW):
        plain = _plain(part)
        for row in zip(*(column.to_pylist() for column in plain.columns), strict=True):
            yield [
                each if isinstance(each, (str, int, float, date, type(None))) else str(each)
                for each in row
            ]


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose lists are texts, which CSV can hold."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        if pa.types.is_list(table.schema.field(place).type):
            texts = [" ".join(map(str, each)) for each in table[name].to_pylist()]
            table = table.set_column(place, name, pa.array(texts, pa.string()))
    return table


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".xlsx": _write_excel,
    ".html": _write_html,
}
