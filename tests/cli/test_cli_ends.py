"""How a run can end early: Ctrl-C, a closed pipe, a full disk, a mistake of ours."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scumble.audit.subjects import of_table
from scumble.cli import console, signals, writing
from scumble.model.long_work import listening
from scumble.model.schema.schema import Schema
from scumble.private.tables.writer import ViewWriter
from scumble.public.archive.load import load
from tests.support.terminal import PEOPLE, child_command, on_terminal, run

SCUMBLE = child_command()
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
CANARY = "Zanzibarite"


def publish(place, output):
    source = (place / "people.parquet", "-s", place / "people.toml", "-o", output)
    return ("publish", "uniform", *source, "-e", "1")


def stop_with(monkeypatch, error):
    def stop(*_):
        raise error

    monkeypatch.setattr(ViewWriter, "add", stop)


def test_ctrl_c_leaves_nothing(place, tmp_path, monkeypatch):
    stop_with(monkeypatch, KeyboardInterrupt())
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    done = run(*publish(place, tmp_path / "v"))
    assert (done.code, done.out) == (130, "")
    assert done.complaint == "Stopped. Nothing was left half-written.\n"
    assert [path.name for path in tmp_path.rglob("*")] == ["temporary"]


def test_a_real_ctrl_c(tmp_path):
    """Two million people take many seconds to make; the signal comes as soon as that has begun."""
    words = [*SCUMBLE, "demo", "--people", "2000000", "--output", str(tmp_path / "out")]
    with subprocess.Popen(words, **PIPES) as child:
        assert child.stderr.readline() == "Making 2,000,000 fictitious people\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=600)
    assert (child.returncode, out) == (130, "")
    assert err == "Stopped. Nothing was left half-written.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["SIGTERM", "SIGHUP"])
def test_ended_by_others_or_with_its_terminal(tmp_path, end):
    """It ends in an orderly way, so that temporary folders, which may hold private rows, go too."""
    (tmp_path / "temporary").mkdir()
    words = [*SCUMBLE, "demo", "--people", "2000000", "--output", str(tmp_path / "out")]
    places = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(words, env=places, **PIPES) as child:
        assert child.stderr.readline() == "Making 2,000,000 fictitious people\n"
        child.send_signal(getattr(signal, end))
        child.communicate(timeout=600)
    assert child.returncode == 128 + getattr(signal, end)
    assert [path.name for path in tmp_path.rglob("*")] == ["temporary"]


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT"])
def test_a_release_that_was_opened_goes_while_a_thread_still_works(place, tmp_path, end):
    """Rows are drawn in a thread, which ends with the program. The release was read from a database
    into a temporary folder, which is removed before.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    address = f"sqlite:///{tmp_path / 'releases.db'}/counts"
    load(place / "counts").save(address, insecure=True)
    words = [*SCUMBLE, "rows", address, "-n", "30000000", "-o", str(tmp_path / "rows.csv")]
    with subprocess.Popen(words, env={**os.environ, "TMPDIR": str(temporary)}, **PIPES) as child:
        while not list(temporary.glob("scumble-*")):
            time.sleep(0.1)
        time.sleep(3)
        child.send_signal(getattr(signal, end))
        _, err = child.communicate(timeout=600)
    assert child.returncode == 128 + getattr(signal, end)
    assert "Traceback" not in err
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "rows.csv").exists()


INTERRUPTED_QUERY = """
import os, signal, sys, threading
import duckdb
from scumble.cli import app
from scumble.model.long_work import interruptible

def work(only=None):
    def application(prog_name=None):
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        with interruptible():
            many = "range(1000000::INT)"
            # With several threads DuckDB itself may wait for ever in Executor::CancelTasks.
            duckdb.sql("SET threads = 1")
            duckdb.sql(f"SELECT sum(a.range * b.range % 7) FROM {many} a, {many} b").fetchall()
    return application

app.application = work
sys.argv = ["scumble", "ask"]
app.main()
"""


def test_sigterm_that_stops_a_statement_of_duckdb_has_its_own_code():
    done = subprocess.run(child_command(INTERRUPTED_QUERY), capture_output=True, timeout=600)
    assert done.returncode == 143


SWALLOWING = """
import signal, time
from scumble.cli.signals import exit_on_signals

with exit_on_signals():
    try:
        try:
            signal.raise_signal(signal.NAME)
            time.sleep(60)
        except BaseException:
            pass  # as some libraries do while they are imported
        time.sleep(60)
    finally:
        time.sleep(1.5)  # is not disturbed
        print("tidied up")
"""


CALLED_BACK = """
import signal, time, weakref
from scumble.cli.signals import exit_on_signals

class Thing:
    pass

def stop(_):
    signal.raise_signal(signal.SIGTERM)

with exit_on_signals():
    thing = Thing()
    kept = weakref.ref(thing, stop)
    del thing
    time.sleep(60)
"""


def test_an_end_in_a_callback_comes_again_and_is_not_reported():
    done = subprocess.run(child_command(CALLED_BACK), capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (143, "")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", -signal.SIGINT)])
def test_an_end_that_is_swallowed_comes_again(name, code):
    words = child_command(SWALLOWING.replace("NAME", name))
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (code, "tidied up\n")


LOADING = """
import sys, time
from signal import SIGINT, raise_signal
from scumble.cli.signals import exit_on_signals

def press(frame, *_):
    if frame.f_code.co_filename.endswith("enum.py"):  # DuckDB makes its enumerations
        sys.setprofile(None)
        raise_signal(SIGINT)

with exit_on_signals():
    try:
        sys.setprofile(press)
        import _duckdb
        time.sleep(60)
    finally:
        print("loaded", "_duckdb" in sys.modules)
"""


def test_ctrl_c_waits_until_a_compiled_library_is_loaded():
    """DuckDB ends the process if an exception is raised while it is loaded."""
    done = subprocess.run(child_command(LOADING), capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "loaded True\n")


HANDLED = """
import signal, time
from scumble.cli.signals import exit_on_signals, interrupt_handled

with exit_on_signals():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        interrupt_handled()
    time.sleep(1.5)
    print("went on")
"""


def test_an_interrupt_that_was_handled_does_not_come_again():
    done = subprocess.run(child_command(HANDLED), capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


STARTING = """
import signal, sys
from scumble.cli import app

def stop(only=None):
    signal.raise_signal(signal.SIGINT)

app.application = stop
sys.argv = ["scumble", "ask"]
app.main()
"""


def test_ctrl_c_before_the_command_begins():
    done = subprocess.run(child_command(STARTING), capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (130, "Stopped. Nothing was left half-written.\n")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.6, 2.5, 7.0])
def test_ctrl_c_ends_all_processes_of_an_audit(tmp_path, monkeypatch, seconds):
    """Its processes hold temporary folders; they end at once, and leave none."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = on_terminal([*SCUMBLE, "audit", "--all"], interrupt=seconds)
    assert done.code == 130
    assert done.text.rstrip().endswith("Stopped. Nothing was left half-written.")
    assert "Traceback" not in done.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["uniform", "anatomy", "histogram", "sparse", "quadtree"])
@pytest.mark.parametrize("seconds", [0.3, 1.1, 1.7])
def test_ctrl_c_at_any_time_leaves_nothing(place, tmp_path, monkeypatch, method, seconds):
    """Whenever it comes, in the middle of an import or of a loop, nothing is published."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    given = {"uniform": ("-e", "1"), "anatomy": ("--l", "2")}
    cells = ("-a", "age", "-e", "1", "--neighbours", "replace")
    source = (place / "people.parquet", "-s", place / "people.toml", "-o", tmp_path / "out")
    words = ("publish", method, *source, *given.get(method, cells))
    done = on_terminal([*SCUMBLE, *map(str, words)], interrupt=seconds)
    if done.code == 0:
        assert (tmp_path / "out" / "manifest.json").exists()
    else:
        assert done.code in (130, -signal.SIGINT)
        assert "Traceback" not in done.text
        assert not any(path.name.startswith(".out") for path in tmp_path.iterdir())
    assert list((tmp_path / "temporary").iterdir()) == []


LONG = {
    "rows": ("rows", "{place}/counts", "-n", "30000000", "-o", "{out}/rows.csv"),
    "compare": (
        "compare", "{place}/people.parquet", "-s", "{place}/people.toml", "-e", "1,2", "-j", "2",
        "-m", "alphabeta,anatomy,histogram", "--repeats", "500", "-o", "{out}/page.html",
    ),
    "ask": (
        "ask", "{place}/view",
        "SELECT age, region, occupation, condition, COUNT(*) FROM t GROUP BY ALL",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", LONG)
@pytest.mark.parametrize("seconds", [0.7, 3.0])
def test_ctrl_c_during_long_work(place, tmp_path, monkeypatch, command, seconds):
    """It ends soon with 130 and one sentence; a comparison keeps the runs that are done."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    words = [each.format(place=place, out=tmp_path / "out") for each in LONG[command]]
    done = on_terminal([*SCUMBLE, *words], interrupt=seconds)
    if command == "ask" and done.code == 0:
        return  # a quick machine had answered before
    assert done.code == 130
    assert "Traceback" not in done.text
    assert "leaked" not in done.text  # by DuckDB, of objects that are still in use
    assert "Stopped. " in done.text
    assert list((tmp_path / "temporary").iterdir()) == []
    left = [path.suffix for path in (tmp_path / "out").iterdir()]
    assert command == "compare" or left == []
    assert not any(path.name.startswith(".") for path in (tmp_path / "out").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("command", ["republish", "db create", "serve"])
def test_ctrl_c_at_the_start(place, tmp_path, monkeypatch, command, seconds):
    """Nothing is left, neither a process nor a folder, and what was there is as it was."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("SCUMBLE_TEST", str(tmp_path))
    table = (place / "people.parquet", "-s", place / "people.toml")
    views = ("--prior-multiple", "10", "--gamma", "0.2", "--multiplicity", "10")
    book = ("--update-record", tmp_path / "ab.book")
    assert (
        run(
            "publish", "alphabeta", *table, *views, "--views", "3", "-o", tmp_path / "ab", *book
        ).code
        == 0
    )
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    words = {
        "republish": (
            "release",
            "republish",
            tmp_path / "ab",
            place / "people.parquet",
            "-j",
            "2",
            *book,
        ),
        "db create": ("db", "create", tmp_path / "db", *table, "-e", "0.5", "-l", "40"),
        "serve": ("serve", "--demo", "--address", "127.0.0.1:0"),
    }[command]
    done = on_terminal([*SCUMBLE, *map(str, words)], interrupt=seconds)
    assert "Traceback" not in done.text
    assert list((tmp_path / "temporary").iterdir()) == []
    assert processes_with(f"SCUMBLE_TEST={tmp_path}") == []
    if done.code == 0:  # a quick machine was done, or the server was listening
        return
    assert done.code == 130
    assert done.text.rstrip().endswith("Stopped. Nothing was left half-written.")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def processes_with(setting: str) -> list[str]:
    """The other processes that have a setting of the environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            known = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        if setting.encode() in known and process.name != str(os.getpid()):
            found.append(process.name)
    return found


@pytest.mark.parametrize("json", [(), ("--json",)])
def test_closed_pipe_is_quiet(place, json):
    sql = "SELECT age, condition, COUNT(*) FROM t GROUP BY age, condition"
    words = [*SCUMBLE, "ask", str(place / "view"), sql, *json]
    with subprocess.Popen(words, **PIPES) as child:
        child.stdout.close()
        err = child.stderr.read()
    assert child.returncode == 1
    assert "Error" not in err
    assert "Traceback" not in err


def test_what_the_system_refuses(place, tmp_path, monkeypatch):
    stop_with(monkeypatch, OSError(28, "No space left on device"))
    done = run(*publish(place, tmp_path / "v"))
    assert done.code == 1
    assert done.complaint == "Error: The system refused: No space left on device.\n"


def test_a_mistake_of_ours_shows_nothing_private(place, tmp_path, monkeypatch):
    stop_with(monkeypatch, TypeError(f"cannot add {CANARY}"))
    done = run(*publish(place, tmp_path / "v"))
    assert done.code == 70
    assert "mistake in scumble (TypeError)" in done.err
    assert CANARY not in done.err + done.out
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where(place, tmp_path, monkeypatch):
    stop_with(monkeypatch, TypeError("cannot add"))
    words = publish(place, tmp_path / "v")
    assert "Traceback" in run("--debug", *words).err
    monkeypatch.setenv("SCUMBLE_DEBUG", "1")
    assert "Traceback" in run(*words).err


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_progress_is_drawn_on_a_terminal_only(place, tmp_path):
    import pty

    words = [*SCUMBLE, *map(str, publish(place, tmp_path / "v"))]
    leader, follower = pty.openpty()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=follower) as child:
        out, _ = child.communicate()
    os.close(follower)
    drawn = os.read(leader, 1 << 16).decode(errors="replace")  # it may be cut anywhere
    os.close(leader)
    assert child.returncode == 0
    assert "Publishing" in drawn
    assert "left" in drawn
    assert "Publishing" not in out.decode()
    assert "3000" not in drawn
    quiet = subprocess.run([*words[:-1], "2", "--force"], capture_output=True, text=True)
    assert quiet.stderr.startswith("To expect: ")
    assert quiet.stderr.count("\n") == 1


WAITS = """
import sys, time
from scumble.cli import bars
with bars.working("Working", total=4) as done:
    for number in range({seconds} * 4 or 1):
        time.sleep({seconds} / 8)
        done(number)
print("rich" in sys.modules)
"""


@pytest.mark.parametrize(("seconds", "drawn"), [(0, False), (3, True)])
def test_what_takes_long_says_so_on_a_terminal(seconds, drawn):
    """Short work does not even wait for the library that draws."""
    done = on_terminal(child_command(WAITS.format(seconds=seconds)))
    assert done.code == 0
    assert done.text.rstrip().endswith(str(drawn))
    assert ("Working" in done.text, "left" in done.text) == (drawn, drawn)


def test_passes_over_a_table_are_one_progress(place):
    """k-anonymity and one sensitive attribute: two passes over 3,000 rows."""
    told = []
    of_table(place / "people.parquet", Schema.load(place / "people.toml"), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 2 * PEOPLE


def test_half_a_marginal_is_not_left(place, tmp_path, monkeypatch):
    words = (place / "people.parquet", "-s", place / "people.toml", "-o", tmp_path / "m")
    cells = ("-a", "age,condition", "-e", "1", "--neighbours", "replace", "--ways", "2")
    assert run("publish", "marginals", *words, *cells).code == 0

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", stop)
    assert (
        run(
            "release", "marginal", tmp_path / "m", "age,condition", "-o", tmp_path / "o.parquet"
        ).code
        == 130
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_library_that_fails_because_of_ctrl_c_is_no_mistake():
    assert "mistake" in console._explain(TypeError("half-imported"))[0]
    with signals.exit_on_signals():
        with pytest.raises(KeyboardInterrupt):
            signals._interrupt(2, None)
        assert console._explain(TypeError("half-imported")) == (signals.STOPPED, 130)
        signals.interrupt_handled()
        assert "mistake" in console._explain(TypeError("half-imported"))[0]


def test_rows_tell_how_far_they_are(place, tmp_path):
    """Drawing, fitting and comparing rows, and writing them in parts."""
    cells = ("-a", "age,condition,sex", "-e", "1", "--neighbours", "replace", "--ways", "2")
    words = (place / "people.parquet", "-s", place / "people.toml", "-o", tmp_path / "m")
    assert run("publish", "marginals", *words, *cells).code == 0
    release, told = load(tmp_path / "m"), []
    with listening(told.append):
        table = release.synthetic.rows(1000, seed=1)
    assert told == sorted(told)
    assert len(told) > 20  # sweeps
    assert told[-1] == 1
    told.clear()
    with listening(told.append):
        release.synthetic.quality(table)
    assert told[-1] == 1


def test_tables_are_written_in_parts(tmp_path, monkeypatch):
    """As if in one part, with a progress, and Ctrl-C between the parts leaves nothing."""
    table = pa.table({"a": range(10), "b": [[1, 2]] * 10})
    writing.write_table(table, str(tmp_path / "one.parquet"))
    writing.write_table(table, str(tmp_path / "one.csv"))
    monkeypatch.setattr(writing, "_AT_ONCE", 3)
    monkeypatch.setattr(writing, "_ROW_GROUP", 4)
    told = []
    with listening(told.append):
        writing._write_csv(table, tmp_path / "two.csv")
    assert told == [0.3, 0.6, 0.9, 1]
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    writing.write_table(table, str(tmp_path / "two.parquet"))
    assert pq.read_metadata(tmp_path / "two.parquet").num_row_groups == 3
    assert pq.read_table(tmp_path / "two.parquet") == pq.read_table(tmp_path / "one.parquet")
    writing.write_table(table.slice(0, 0), str(tmp_path / "none.csv"))
    assert (tmp_path / "none.csv").read_text() == '"a","b"\n'

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "tell", stop)
    with pytest.raises(KeyboardInterrupt):
        writing.write_table(table, str(tmp_path / "three.csv"))
    assert not list(tmp_path.glob("*three*"))
    assert not list(tmp_path.glob(".*"))
