"""The commands `scumble serve` and `scumble token ...`: questions over the network."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options
from scumble.model.errors import ParameterError

if TYPE_CHECKING:
    from scumble.server.config import Address, ServerSettings
    from scumble.server.service import Service

_HERE = "127.0.0.1"
token_app = console.group("Make, list and revoke tokens: who may use the server.")

Configuration = Annotated[
    Path | None, typer.Argument(metavar="[CONFIGURATION]", help="The file server.toml.")
]
ServerFile = Annotated[Path, typer.Argument(metavar="CONFIGURATION", help="The file server.toml.")]
Demo = Annotated[bool, typer.Option("--demo", help="Serve fictitious people; needs nothing else.")]
Listen = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="Where to listen.  [default: as configured]"
    ),
]
Port = Annotated[
    int | None,
    typer.Option("--port", metavar="NUMBER", min=0, max=65535, help="Listen on this port here."),
]
Postgres = Annotated[
    str | None,
    typer.Option(
        "--postgres",
        metavar="HOST:PORT",
        help="Listen there for psql and other clients of PostgreSQL, too.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No line in the log for each request.")]
Role = Annotated[
    str, typer.Option("--role", "-r", metavar="CHOICE", help="owner, analyst or auditor.")
]
Name = Annotated[str, typer.Option("--name", metavar="TEXT", help="Who uses the token.")]
Days = Annotated[
    float | None,
    typer.Option("--days", metavar="NUMBER", help="Days until it expires.  [default: never]"),
]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", metavar="NAME", help="A data set that it is for; repeatable."),
]
Prefix = Annotated[str, typer.Argument(metavar="PREFIX", help="The prefix that `list` shows.")]


def serve(
    configuration: Configuration = None,
    demo: Demo = False,
    address: Listen = None,
    port: Port = None,
    postgres: Postgres = None,
    quiet: Quiet = False,
) -> None:
    """Serve databases and releases to browsers and programs."""
    from scumble.server.config import Address
    from scumble.server.serve import check_installed, listen, logging_to, open_service

    if demo == (configuration is not None):
        raise ParameterError("Give the file server.toml, or --demo to try it with made-up people.")
    if port is not None and address is not None:
        raise ParameterError("Give --address or --port, not both: --address HOST:PORT says it all.")
    check_installed()
    address = address if port is None else f"{_HERE}:{port}"
    where = None if address is None else Address.read(address)
    with ExitStack() as stack:
        settings = _settings(configuration, where, stack)
        if postgres is not None:
            settings = replace(settings, postgres=Address.read(postgres, "postgres"))
        with bars.working("Opening the data sets"):
            service = open_service(settings)
        stack.enter_context(logging_to(level=logging.WARNING if quiet else logging.INFO))
        listen(service, lambda: _greet(service, demo=demo))
    console.say("The server has ended.")


def _settings(
    configuration: Path | None, where: Address | None, stack: ExitStack
) -> ServerSettings:
    from scumble.server.config import Address, load_settings

    if configuration is not None:
        found = load_settings(configuration)
        settings = found if where is None else replace(found, address=where)
        settings.address.check_free()
        return settings
    from scumble.server.demo import STEPS, make_demo

    where = where or Address(_HERE, 8470)
    where.check_free()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scumble-server-")))
    with bars.steps(STEPS) as step:
        return make_demo(folder, where, step)


def _greet(service: Service, *, demo: bool) -> None:
    """Print where the server is; of the demonstration, a link and tokens for each role."""
    settings = service.settings
    base = settings.base
    console.echo(f"Serving {len(list(service.catalogue))} data sets at {base}")
    if not settings.secure and not settings.address.local:
        console.say(
            "Warning: without TLS everybody on the way can read tokens and answers. Set a "
            "certificate and key, or put a proxy with TLS in front and listen on 127.0.0.1."
        )
    if settings.postgres is not None:
        console.echo(f"PostgreSQL clients: {settings.postgres}, user = prefix of a token, password")
        console.echo("  = the token, database = the data set")
    if not demo:
        if not service.tokens.all():
            console.say("There is no token yet: scumble token create CONFIGURATION ...")
        return
    _, owner = service.tokens.create("owner", "owner", days=1)
    text, _ = service.tokens.create("analyst", "analyst", days=1)
    console.echo(f"  Owner, log in once:  {base}/login?link={service.sessions.link(owner)}")
    console.echo(f"  Token of an analyst: {text}")
    console.echo(f"  It opens {base}/login in a browser; or from Python:")
    console.echo(f'    db = sc.connect("{base}/live", token="...")')
    console.echo('    db.ask("SELECT COUNT(*) FROM people WHERE age >= 65", within=100)')
    console.echo("Ctrl-C ends it, and removes everything.")


@token_app.command("create")
def create(
    configuration: ServerFile,
    role: Role,
    name: Name,
    days: Days = None,
    dataset: Datasets = None,
    as_json: options.Json = False,
) -> None:
    """Make a token. It is printed once, and stored only as a hash."""
    settings, store = _store(configuration)
    known = [each.name for each in settings.datasets]
    for each in dataset or ():
        if each not in known:
            raise ParameterError.of("token", "dataset", f"one of {', '.join(known)}", each)
    text, token = store.create(role, name, days=days, datasets=dataset)
    if as_json:
        console.print_json({"token": text, **token.public()})
    else:
        console.echo(text)
        console.say(f"Keep it: it is shown this once. Revoke it by its prefix, {token.prefix}.")


@token_app.command("list")
def list_tokens(configuration: ServerFile, as_json: options.Json = False) -> None:
    """List all tokens; never their text."""
    _, store = _store(configuration)
    found = [each.public() for each in store.all()]
    if as_json:
        console.print_json(found)
        return
    for each in found:
        sets = ", ".join(each["datasets"]) if each["datasets"] else "all data sets"
        until = f", until {each['expires'][:16]}" if each["expires"] else ""
        words = f"{each['prefix']}  {each['role']:8} {each['state']:8}"
        console.echo(f"{words} {each['name']}  ({sets}{until})")
    if not found:
        console.say("There is no token yet.")


@token_app.command("revoke")
def revoke(configuration: ServerFile, prefix: Prefix) -> None:
    """Revoke a token, at once and for good; a running server notices."""
    _, store = _store(configuration)
    token = store.revoke(prefix)
    console.say(f"Revoked the token {prefix} of {token.name}.")


def _store(configuration: Path) -> tuple[ServerSettings, Any]:
    from scumble.server.config import load_settings
    from scumble.server.tokens import TokenStore

    settings = load_settings(configuration)
    return settings, TokenStore(settings.folder)
