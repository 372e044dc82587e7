"""The command that tries to break promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from scumble.cli import console, options, options_audit
from scumble.model.errors import ParameterError, PromiseError, ReleaseError

if TYPE_CHECKING:
    from scumble.audit.report import Report


def audit(
    subject: options_audit.Subject = None,
    schema: options_audit.SchemaFile = None,
    k: options_audit.K = None,
    l: options_audit.L = None,  # noqa: E741  # the letter that everybody uses for it
    t: options_audit.T = None,
    known: options_audit.Known = None,
    worst: options_audit.Worst = 10,
    method: options_audit.Method = None,
    values: options_audit.Values = 15,
    claim_epsilon: options_audit.Claim = None,
    parameter: options_audit.Parameter = None,
    runs: options_audit.Runs = 200_000,
    everything: options_audit.Everything = False,
    output: options_audit.Page = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Try to break what is promised: of a release, a database, a method, or a table as it is.

    An audit can refute, never prove. The exit code is 7 if something is refuted.
    """
    if output is not None and output.exists() and not force:
        raise ParameterError(f"{output} exists already. Choose another name, or say --force.")
    chosen = [subject is not None, method is not None, everything]
    if sum(chosen) != 1:
        raise ParameterError(
            "Name one thing to audit: a folder or table, a method with --method, or --all."
        )
    if everything:
        reports = _catalogue(runs)
    elif method is not None:
        reports = [_method(method, k, l, values, claim_epsilon, parameter or [], runs)]
    else:
        reports = [_subject(Path(str(subject)), schema, (k, l, t), _names(known), worst)]
    _tell(reports, output, as_json)


def _names(given: list[str] | None) -> list[str]:
    return [name.strip() for part in given or [] for name in part.split(",")]


def _subject(
    path: Path,
    schema: Path | None,
    claimed: tuple[float | None, int | None, float | None],
    known: list[str],
    worst: int,
) -> Report:
    from scumble.audit import subjects
    from scumble.model.schema.schema import Schema

    if not path.exists():
        raise ReleaseError(f"There is no folder or table {path}. Check its name.")
    if (path / "ledger.sqlite").exists():
        return subjects.of_database(path)
    if path.is_dir():
        return subjects.of_release(path, known, worst)
    if schema is None:
        raise ParameterError("A table is audited with --schema: it says what attackers know.")
    k, l, t = claimed  # noqa: E741
    whole = None if k is None else int(k)
    return subjects.of_table(path, Schema.load(schema), k=whole, l=l, t=t)


def _method(
    method: str,
    k: float | None,
    l: int | None,  # noqa: E741
    values: int,
    claimed: float | None,
    parameters: list[str],
    runs: int,
) -> Report:
    from scumble.audit import subjects
    from scumble.private.mechanism import create

    named: dict[str, Any] = dict(map(_pair, parameters))
    named |= {name: _whole(value) for name, value in (("k", k), ("l", l)) if value is not None}
    mechanism = create(method, **named)
    if claimed is None and "epsilon" not in named:
        raise ParameterError("Say what is claimed with --claim-epsilon, such as 0.5.")
    loss = float(named["epsilon"] if claimed is None else claimed)
    return subjects.of_method(mechanism, values, loss, games=runs)


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError.of("audit", "parameter", "name=value, such as epsilon=1", text)
    try:
        return name.strip(), _whole(float(value))
    except ValueError:
        return name.strip(), value.strip()


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value


def _catalogue(runs: int) -> list[Report]:
    from scumble.audit.catalogue import catalogue

    with console.steps() as step:
        return list(catalogue(runs, step))


def _tell(reports: list[Report], output: Path | None, as_json: bool) -> None:
    from scumble.audit.certificate import page

    if output is not None:
        output.write_text(page(reports[0]), "utf-8")
    if as_json:
        told = [report.to_dict() for report in reports]
        console.print_json(told[0] if len(told) == 1 else told)
    else:
        typer.echo("\n\n".join(map(str, reports)))
    if output is not None:
        console.say(f"The certificate is in {output}.")
    if any(report.refuted for report in reports):
        raise typer.Exit(PromiseError.exit_code)
