"""The command `scumble publish`, with a command for each method.

The commands of methods are made when they run: the list of methods comes from the records of the
families, and the options of one from its constructor. Any other word is a table, about which
`guide.py` asks.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from scumble.cli import console, options
from scumble.cli.publish_options import FREQUENT, PublishOptions
from scumble.families import families, mechanism_names
from scumble.model.errors import ParameterError, nearest_name
from scumble.model.family import USES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scumble.cli.method_options import MethodOption

_COMMON = {each.name for each in fields(PublishOptions)} | {"help"}
_HEAD_METHODS = {
    "auto": "the method that `scumble recommend` names",
    "linked": "several tables about the same people, as synthetic rows",
}
_IN_FULL = "What one promises, and its options: scumble publish METHOD --help."
_GIVEN_BEFORE = ("--list", "--json", "--help", "-h")


class PublishGroup(TyperGroup):
    """Finds or makes the command of the method that is named first."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_HEAD_METHODS, *mechanism_names()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        # Completion asks for all commands, whose names are all that it needs.
        return TyperCommand(cmd_name) if ctx.resilient_parsing else command_of(cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Options of the guide may stand before the table.
        if args and args[0].startswith("-") and args[0] not in _GIVEN_BEFORE:
            args = ["--", *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command and remember it: messages name its options."""
        if args[0] in self.list_commands(ctx):
            found, rest = command_of(args[0]), args[1:]
        else:
            _check_table(args)
            found, rest = command_of(""), args
        console.settings(ctx).command = found
        return found.name, found, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, methods in listed_methods().items():
            with formatter.section(heading):
                formatter.write_dl(list(methods.items()))
        formatter.write_paragraph()
        formatter.write_text(_IN_FULL)


app = typer.Typer(
    cls=PublishGroup,
    no_args_is_help=True,
    invoke_without_command=True,
    rich_markup_mode=None,
    subcommand_metavar="[METHOD] SOURCE ...",
)


@app.callback()
def publish(
    listed: Annotated[bool, typer.Option("--list", help="List the methods, and stop.")] = False,
    as_json: options.Json = False,
) -> None:
    """Publish a table under a stated privacy promise.

    Without a METHOD it asks five questions, and publishes by the method that suits the answers:
    scumble publish people.csv
    """
    if not listed:
        if as_json:
            raise ParameterError("--json goes with --list, or stands after METHOD SOURCE.")
        return
    if as_json:
        console.print_json(_method_fields())
    else:
        for heading, methods in listed_methods().items():
            console.echo(f"{heading}:")
            for name, publishes in methods.items():
                console.echo(f"  {name:<14}", "bold", nl=False)
                console.echo(publishes)
        console.say(_IN_FULL)
    raise typer.Exit


def listed_methods() -> dict[str, dict[str, str]]:
    """Return what each method publishes, by heading and name, from the records of the families."""
    found = {"To begin with": dict(_HEAD_METHODS), **{heading: {} for heading in USES.values()}}
    for family in families().values():
        found[USES[family.use]] |= family.publishes
    return found


def _method_fields() -> list[dict[str, str]]:
    return [
        {"method": name, "use": family.use, "publishes": family.publishes[name]}
        for family in families().values()
        for name in family.mechanisms
    ]


def _check_table(words: Sequence[str]) -> None:
    """Refuse a command without a method that cannot mean a table."""
    first, *others = words
    methods = mechanism_names()
    if first.startswith("-") or {"--method", "-m"} & set(others):
        named = next((each for each in words if each in methods), None)
        if named is not None:
            raise ParameterError(f"The method comes first: scumble publish {named} SOURCE ...")
    plain = first.replace("_", "").replace("-", "").isalpha() and not first.startswith("-")
    if plain and not Path(first).exists():
        near = nearest_name(first, methods)
        hint = f" Did you mean '{near}'?" if near else ""
        raise ParameterError(
            f"There is no method and no file '{first}'.{hint} scumble publish --list shows the "
            "methods."
        )


# --- the command of a method ---------------------------------------------------------------------


class MethodCommand(TyperCommand):
    """Shows the options of the method first, then those that nearly everybody gives."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[Any]] = {
            "Arguments": [],
            f"Options of {ctx.info_name}": [],
            "Options": [],
            "Rarely used": [],
        }
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                heading = "Arguments"
            elif parameter.name not in _COMMON:
                heading = f"Options of {ctx.info_name}"
            else:
                heading = "Options" if parameter.name in FREQUENT else "Rarely used"
            sections[heading].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class GuideCommand(TyperCommand):
    """Is called like the group: its help and its errors say `scumble publish SOURCE`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return super().make_context(parent.info_name, args, parent.parent, **extra)


def command_of(name: str) -> Any:
    """Return the command of a method; without a name, the one that asks."""
    if name == "":
        from scumble.cli.guide import guide

        return _made("", guide, GuideCommand)
    if name == "auto":
        from scumble.cli.publish import publish_auto

        return _made(name, options.expand_groups(publish_auto))
    return _linked_command() if name == "linked" else _method_command(name)


def _made(
    name: str,
    function: Callable[..., None],
    kind: type[TyperCommand] = MethodCommand,
    text: str | None = None,
) -> Any:
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=kind, help=text)(function)
    return typer.main.get_command(single)


def _method_command(name: str) -> Any:
    """Make the command of a method from the constructor and the card of its mechanism."""
    from scumble.cli.method_options import method_options
    from scumble.cli.publish import Levels, UpdateRecordOption, publish_by
    from scumble.cli.tools.cards import card
    from scumble.private.mechanism import Mechanism, named_mechanism

    kind = named_mechanism(name)
    own = method_options(name, kind)
    shared = _fields(PublishOptions)
    extra = {"levels": Levels} if hasattr(kind, "publish_levels") else {}
    extra |= (
        {"update_record": UpdateRecordOption}
        if kind.private_record is not Mechanism.private_record
        else {}
    )

    def command(**given: Any) -> None:
        common = PublishOptions(**{field: given.pop(field) for field in shared})
        others = {each: given.pop(each) for each in extra}
        publish_by(name, own, _read(own, given), common, **others)

    keyword = inspect.Parameter.KEYWORD_ONLY
    taken = [
        shared["source"],
        *(each.typer_parameter() for each in own.values()),
        *(inspect.Parameter(n, keyword, default=None, annotation=a) for n, a in extra.items()),
        *(each for field, each in shared.items() if field != "source"),
    ]
    said = card(kind)
    text = f"{said.summary}\n\nPromises: {said.sections['Promises']}"
    return _made(name, options.with_signature(command, taken), text=text)


def _linked_command() -> Any:
    """Make the command of several tables, whose promise is that of Synthesis."""
    from scumble.cli.groups.linked import NOT_TAKEN, LinkedOptions, publish_linked
    from scumble.cli.method_options import check_needed, method_options
    from scumble.private.mechanism import named_mechanism

    own = method_options("synthesis", named_mechanism("synthesis"))
    own = {name: each for name, each in own.items() if name not in NOT_TAKEN}
    shared = _fields(LinkedOptions)

    def command(**given: Any) -> None:
        tables = LinkedOptions(**{field: given.pop(field) for field in shared})
        promise = _read(own, given)
        check_needed("linked", own, promise)
        publish_linked(tables, promise)

    taken = [*list(shared.values())[:4], *(each.typer_parameter() for each in own.values())]
    text = (
        "Publishes several tables about the same people under one promise, as synthetic rows whose "
        "keys join: a table of people, and tables with several rows for each of them."
    )
    taken += list(shared.values())[4:]
    return _made("linked", options.with_signature(command, taken), text=text)


def _fields(kind: type) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(kind, eval_str=True).parameters)


def _read(own: Mapping[str, MethodOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a mechanism for the options that were given (not None)."""
    return {name: own[name].read(value) for name, value in given.items() if value is not None}
