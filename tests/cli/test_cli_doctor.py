"""`scumble doctor`: ten lines, an exit code that can be relied on, and no import of weight."""

import re
import subprocess
import sys
from importlib import metadata

import pytest

from scumble.cli.tools import doctor
from tests.cli.test_cli_start import HEAVY
from tests.support.terminal import run

TOPICS = "Version Packages Extras Cores Compiled Temporary Folder Sync Terminal Verdict".split()


@pytest.fixture
def versions(monkeypatch):
    """Versions that packages are given in place of the installed ones; None is not installed."""
    given = {}
    real = metadata.version

    def version(name):
        found = given.get(name, "") or (None if name in given else real(name))
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)
    return given


def line(done, topic):
    [found] = [each for each in done.out.splitlines() if each.startswith(topic)]
    return found


def test_ten_lines_and_nothing_left_behind(tmp_path):
    done = run("doctor", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert [each.split()[0] for each in done.out.splitlines()] == TOPICS
    assert list(tmp_path.iterdir()) == []
    assert re.search(r"^Sync +(ok|note) +[\d.e+]+ ms", done.out, re.MULTILINE)


def test_json(tmp_path):
    report = run("doctor", tmp_path, "--json").json
    assert report["healthy"] is True
    assert [each["topic"] for each in report["findings"]] == TOPICS[:-1]
    assert {each["state"] for each in report["findings"]} <= {"ok", "note"}


def test_a_package_that_is_missing_is_a_problem(tmp_path, versions):
    versions["duckdb"] = None
    done = run("doctor", tmp_path)
    assert done.code == 1
    assert "duckdb is missing" in line(done, "Packages")
    assert line(done, "Verdict").split()[1:] == ["problem", "look", "at:", "Packages"]
    assert run("doctor", tmp_path, "--json").json["healthy"] is False


def test_versions_are_compared_as_numbers(tmp_path, versions, subtests):
    for version, old in [("0.9", True), ("2.0", False), ("10.0.0rc1", False)]:
        with subtests.test(version=version):
            versions["duckdb"] = version
            done = run("doctor", tmp_path)
            assert done.code == int(old)
            assert (f"duckdb {version} is older than 2.0" in line(done, "Packages")) == old


def test_an_extra_that_is_missing_is_a_note(tmp_path, versions):
    versions["matplotlib"] = None
    done = run("doctor", tmp_path)
    assert done.code == 0
    extras = line(done, "Extras")
    assert extras.split()[1] == "note"
    assert "plot: matplotlib is missing (pip install 'scumble[plot]')" in extras


def test_a_folder_that_cannot_be_written_is_a_problem(tmp_path):
    done = run("doctor", tmp_path / "none")
    assert done.code == 1
    assert "cannot be written: No such file or directory" in line(done, "Folder")
    (tmp_path / "file").write_text("")
    assert run("doctor", tmp_path / "file").code == 1


def test_the_cache_of_compiled_loops(tmp_path, monkeypatch):
    monkeypatch.setenv("SCUMBLE_CACHE", str(tmp_path / "cache"))
    assert "none yet" in line(run("doctor", tmp_path), "Compiled")
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "loop.1.nbc").write_bytes(bytes(2048))
    assert "1 kept, 2 KiB" in line(run("doctor", tmp_path), "Compiled")
    for mode in (0o777, 0o770, 0o702):
        (tmp_path / "cache").chmod(mode)
        assert "others can write there" in line(run("doctor", tmp_path), "Compiled")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCUMBLE_CACHE", str(tmp_path / "file"))
    done = run("doctor", tmp_path)
    assert done.code == 0
    assert line(done, "Compiled").split()[1] == "note"


def test_scumble_that_is_not_installed(tmp_path, monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    done = run("doctor", tmp_path)
    assert done.code == 0
    assert "is not installed" in line(done, "Packages")


def test_requirements_are_those_of_the_package():
    known = doctor.requirements()
    assert doctor.Requirement("numpy", "1.26", "") in known
    assert doctor.Requirement("matplotlib", "3.8", "plot") in known
    assert not [each for each in known if each.package == "scumble"]


def test_imports_nothing_heavy(tmp_path):
    words = ["-X", "importtime", "-c", "from scumble.cli.app import main; main()", "doctor"]
    done = subprocess.run(
        [sys.executable, *words, str(tmp_path)], capture_output=True, text=True, check=True
    )
    imported = set(re.findall(r"\| +(\w+)$", done.stderr, re.MULTILINE))
    assert "typer" in imported
    assert imported & HEAVY == set()
