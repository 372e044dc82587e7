"""One name for one thing: commands, options, and what commands were called before."""

from collections import defaultdict

import typer

from scumble.cli import app
from tests.support.terminal import run

PROGRAM = typer.main.get_command(app.app)


def commands(group=PROGRAM, path=""):
    for name, command in group.commands.items():
        yield f"{path}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")


KNOWN = dict(commands())


def test_an_old_name_tells_the_new_one(subtests):
    for old, new in app.OLD_NAMES.items():
        if old in KNOWN:  # it is renamed elsewhere
            continue
        with subtests.test(old=old):
            for words in ([], ["--help"], ["people", "SELECT 1"]):
                done = run(*old.split(), *words)
                assert (done.code, done.out) == (2, "")
                assert done.err == f"Error: `scumble {old}` is now `scumble {new}`.\n"


def test_a_new_name_exists(subtests):
    for new in {*app.OLD_NAMES.values()} - {"recommend", "publish linked", "publish --list"}:
        with subtests.test(new=new):
            name, _, option = new.partition("--")
            command = KNOWN[name.strip()] if name else PROGRAM
            flags = {flag for each in command.params for flag in each.opts}
            assert not option or f"--{option}" in flags or "-o" in flags


def options():
    """Every option of a command, apart from those that are going to be renamed."""
    for name, command in KNOWN.items():
        old = name in app.OLD_NAMES or hasattr(command, "commands")
        if old or name.startswith("publish"):  # a method has options of its own
            continue
        for option in command.params:
            if option.opts[0].startswith("-"):
                yield name, option


def test_a_short_option_stands_for_one_long_one():
    meanings = defaultdict(set)
    for _, option in options():
        short = [flag for flag in option.opts if len(flag) == 2]
        for flag in short:
            meanings[flag] |= {each for each in option.opts if each not in short}
    assert {flag: names for flag, names in meanings.items() if len(names) > 1} == {}


def test_twins_mean_the_same():
    """-n is a number of results, --relax what happens when a promise is used up, and so on."""
    kinds = defaultdict(set)
    for _, option in options():
        for flag in option.opts:
            kinds[flag].add(option.metavar)
    for flag in (
        "--number",
        "--relax",
        "--part",
        "--workload",
        "--queries",
        "--level",
        "--key",
        "--force",
    ):
        assert len(kinds[flag] - {"ROWS"}) <= 1, (flag, kinds[flag])


def test_help_fits_on_a_screen():
    shown = run("--help").out.splitlines()
    lines = [line for line in shown if not set(line.split()[:1]) & {*app.OLD_NAMES}]
    assert 24 <= len(lines) <= 30
    assert not any(line.endswith("...") for line in lines[1:])
