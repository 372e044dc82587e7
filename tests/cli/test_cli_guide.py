"""`scumble publish SOURCE`: five questions, and then a release."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import scumble as sc
from scumble.audit import report
from scumble.cli import guide
from scumble.model.errors import ParameterError, SourceError
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.unit import Unit
from scumble.private.tables.open import open_source
from scumble.private.tables.persons import limit
from scumble.private.tables.persons.limit import shares_kept
from tests.support.hospital import write_hospital
from tests.support.terminal import child_command, on_terminal, run

UNIT = ["event PatientID 3"]  # one event of a person, of whom three rows count
ROLES = ["illness=secret", "yes"]  # a change, and then: these are all values
REST = ["1", "2", "stays-release"]  # questions; balanced; the folder


class Script:
    """Answers, and the prompts that they were given to. An answer None takes the proposal."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    def __call__(self, prompt: str, default: str) -> str:
        self.prompts.append(prompt)
        answer = self.answers.pop(0)
        return default if answer is None else answer


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with stays.csv, of 200 people with one to four rows, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    rows = [
        f"P{person},{person % 3},{'mf'[person % 2]},{('flu', 'asthma')[stay % 2]}"
        for person in range(200)
        for stay in range(1 + person % 4)
    ]
    (tmp_path / "stays.csv").write_text("\n".join(["PatientID,age,sex,illness", *rows]) + "\n")
    return tmp_path


def ask(script: Script, *, yes: bool = False, schema: Path | None = None) -> None:
    guide.publish_guided(guide.Guided("stays.csv", schema=schema), guide.Questions(script, yes))
    assert script.answers == []


def test_five_questions_end_in_a_release_a_certificate_and_a_command(ward, capsys):
    ask(Script(*UNIT, *ROLES, *REST))
    names = {"stays.csv", "stays.toml", "stays-release", "stays-release-certificate.html"}
    assert {path.name for path in ward.iterdir()} == names
    schema = sc.Schema.load("stays.toml")
    assert schema.unit == Unit("PatientID", 3)
    assert [each.name for each in schema.sensitive] == ["illness"]
    assert schema.from_data == ()
    release = sc.open("stays-release")
    assert release.manifest.parameters["epsilon"] == 1
    assert "PatientID" not in release.evidence.columns
    shown = capsys.readouterr()
    for part in (
        "Published:      age, sex, illness",
        "Not published:  PatientID",
        "Protected:      Up to 3 rows of a person count; PatientID names the person.",
        "The number of rows is private, so 10,000 are assumed.",
        "balanced (ε = 1): Someone who already believed a guess with 10 % can reach",
    ):
        assert part in shown.err
    command = shown.out.splitlines()[-1].strip()
    assert command.startswith("scumble publish ")
    again = run(*shlex.split(command)[1:], "--force", "--json")
    assert again.code == 0, again.err
    assert again.json["parameters"] == dict(release.manifest.parameters)


def test_the_certificate_names_table_unit_and_promise(ward):
    ask(Script(*UNIT, *ROLES, *REST))
    page = (ward / "stays-release-certificate.html").read_text("utf-8")
    assert "<title>Privacy certificate: stays</title>" in page
    assert "Up to 3 rows of a person count; PatientID names the person." in page
    assert str(sc.open("stays-release").guarantees[0]).replace("'", "&#39;") in page
    assert '<th scope="row">Signature</th>' in page
    assert (
        "The owner declared that the lists of possible values of age, sex, illness are public"
        in page
    )
    assert '<p class="outcome whole">' in page


def test_shares_of_rows_are_read_only_if_the_owner_agrees(ward, capsys, monkeypatch):
    ask(Script("shares", *UNIT, *ROLES, *REST))
    told = capsys.readouterr().err
    # 200 people, a quarter each with 1, 2, 3 and 4 rows: 500 rows.
    for most, share in {"1": 40, "2": 70, "5": 100, "10": 100}.items():
        assert f"{most:>2} of each person: {share} % of the rows" in told
    monkeypatch.setattr(limit, "shares_kept", None)
    (ward / "stays.toml").unlink()
    ask(Script(*UNIT, *ROLES, "1", "2", "again"))
    assert "% of the rows" not in capsys.readouterr().err


def test_shares_of_rows_that_bounds_keep(ward):
    assert shares_kept(open_source("stays.csv"), "PatientID", (1, 3)) == {1: 0.4, 3: 0.9}


def test_an_answer_that_is_not_allowed_is_asked_again(ward, capsys):
    script = Script(
        *("1", "event", "event PatientID", "event PatientId 3", "event PatientID 0", *UNIT),
        *("illness", "ilness=secret", "sex=numbers", "PatientID=known", "no", *ROLES),
        *("many", "1"), *("0", "2"), *("5", "stays.csv", "stays-release"),
    )  # fmt: skip
    ask(script)
    told = capsys.readouterr().err
    unit = (
        "Type person, or event with the column that names the person and the most rows of a person "
        "that count, such as: event PatientID 5."
    )
    assert told.count(unit) == 3
    assert told.count("Type yes, unsure, or changes such as illness=drop.") == 2
    for sentence in (
        "There is no column 'PatientId'. Did you mean 'PatientID'?",
        "Type a whole number above 0.",
        "There is no column 'ilness'. Did you mean 'illness'?",
        "'sex' can be secret, known or drop. Got 'numbers' instead.",
        "'PatientID' names the person: it is never published.",
        "Type a number from 1 to 3.",
        "Type a number from 1 to 4, a folder or stop.",
        "stays.csv already exists. Choose another name.",
    ):
        assert sentence in told


def test_proposals_come_from_the_table(ward):
    """The person from repeats, roles from the columns; the unit of no person is a row."""
    script = Script(None, "yes", None, None, None)
    ask(script)
    assert len(script.prompts) == 5
    assert sc.Schema.load("stays.toml").unit == Unit("PatientID", 5)
    assert sc.open("stays-release").manifest.parameters["epsilon"] == 0.46


def test_yes_takes_only_what_no_promise_depends_on(ward):
    script = Script(*UNIT, *ROLES, "1")
    ask(script, yes=True)
    assert script.prompts == ["One row is", "Your answer", "Your answer", "Which"]
    assert Path("stays-release").exists()


def test_what_a_schema_states_is_not_asked(ward):
    ask(Script(*UNIT, *ROLES, *REST))
    (ward / "stays.toml").rename("own.toml")
    script = Script("3", "1", "tables")
    ask(script, schema=Path("own.toml"))
    assert not Path("stays.toml").exists()
    text = Path("own.toml").read_text().replace('unit = "person"\n', "", 1)
    kept = [line for line in text.splitlines() if not line.startswith(("person", "most_rows"))]
    Path("silent.toml").write_text("\n".join(kept))
    ask(Script(*UNIT, "1", "1", "two"), schema=Path("silent.toml"))
    assert sc.Schema.load("stays.toml").unit == Unit("PatientID", 3)
    assert sc.Schema.load("silent.toml").unit is None


def test_values_that_may_be_secret_keep_their_mark(ward, capsys):
    """The last lines say that the certificate refutes it, and what to do; and that mends it."""
    ask(Script(*UNIT, ROLES[0], "unsure", *REST))
    assert set(sc.Schema.load("stays.toml").from_data) == {"age", "sex", "illness"}
    shown = capsys.readouterr()
    assert "a value may be missing, or may be a secret: the certificate warns of it" in shown.err
    page = (ward / "stays-release-certificate.html").read_text("utf-8")
    assert "Refuted: stays" in page
    assert "The owner declared" not in page
    *_, warning, advice = shown.err.splitlines()
    assert warning == (
        "WARNING: The certificate says: The possible values of age, sex, illness were read from "
        "the private table and are published."
    )
    assert "look at the values of age, sex, illness in stays.toml" in advice
    lines = (ward / "stays.toml").read_text().splitlines()
    kept = [line for line in lines if line != "from_data = true"]
    (ward / "stays.toml").write_text("\n".join(kept))
    assert run(*shlex.split(shown.out.splitlines()[-1])[1:], "--force").code == 0
    assert sc.open("stays-release").schema.from_data == ()


def test_after_the_plan_answers_can_be_changed(ward, capsys):
    """What was answered is proposed again; the promise and the columns are those of the last."""
    careful, columns = ["4", "3"], ["1", None, "illness=known, sex=drop", None]
    ask(Script(*UNIT, *ROLES, "1", "2", *careful, *columns, "stays-release"))
    schema = sc.Schema.load("stays.toml")
    assert schema.unit == Unit("PatientID", 3)
    assert (schema.sensitive, schema.from_data) == ((), ())
    assert schema.names == ("PatientID", "age", "illness")
    release = sc.open("stays-release")
    assert release.manifest.parameters["epsilon"] == 2
    assert release.evidence.columns == ("age", "illness")
    told = capsys.readouterr().err
    assert told.count("Secret:         illness") == 2
    assert "Secret:         nothing" in told
    assert told.count("rows with one value of illness (") == 2  # the secret column comes first
    assert told.count("2. Which columns are secret") == 2


def test_a_dropped_column_is_taken_for_nothing_that_tells_people_apart(ward, capsys):
    """It is left out of the schema, so that nobody is warned of its repeats, now or next time."""
    rows = [f"{k % 3},{'mf'[k % 2]},{('flu', 'asthma')[k % 5 > 1]}" for k in range(200)]
    Path("stays.csv").write_text("\n".join(["age,sex,illness", *rows]) + "\n")
    ask(Script("person", "sex=drop", None, *REST))
    assert sc.Schema.load("stays.toml").names == ("age", "illness")
    shown = capsys.readouterr()
    assert "the same value in several rows" not in shown.err
    again = next(line for line in shown.out.splitlines() if "--schema" in line)
    made = run(*shlex.split(again)[1:-1], "again")
    assert (made.code, "the same value in several rows" in made.err) == (0, False)


def test_one_answer_can_be_changed_alone(ward):
    script = Script(*UNIT, *ROLES, "1", "2", "2", "age=drop", None, "3", "3", "stays-release")
    ask(script)
    assert script.prompts[-6:] == [
        "Publish to", "Your answer", "Your answer", "Publish to", "Which", "Publish to",
    ]  # fmt: skip
    assert sc.open("stays-release").evidence.columns == ("sex", "illness")


def test_what_is_typed_for_publish_is_no_name_of_a_folder(ward):
    ask(Script(*UNIT, *ROLES, "1", "2", "yes"))
    assert Path("stays-release").is_dir()


def test_types_that_were_chosen_are_proposed_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hospital(tmp_path / "stays.csv")
    first = [*UNIT, "Geschlecht=numbers, Diagnose=secret", "yes"]
    ask(Script(*first, "1", "2", "1", None, None, "stays-release"))
    schema = sc.Schema.load("stays.toml")
    assert schema["Geschlecht"].domain == IntegerRange(1, 2)
    assert [each.name for each in schema.sensitive] == ["Diagnose"]
    assert schema.from_data == ()


def test_a_type_that_changes_is_declared_anew(ward):
    """The owner declared the values that were shown, not those that come after."""
    ask(Script(*UNIT, "yes", "1", "2", "2", "age=codes", None, "stays-release"))
    assert set(sc.Schema.load("stays.toml").from_data) == {"age", "sex", "illness"}


@pytest.mark.parametrize("back", [["age=codes", "age=numbers"], ["age=drop", "age=known"]])
def test_changes_can_be_taken_back(ward, back):
    ask(Script(*UNIT, *back, "yes", *REST))
    assert sc.Schema.load("stays.toml")["age"].domain == IntegerRange(0, 2)


def test_who_stops_after_the_plan_leaves_nothing(ward, capsys):
    ask(Script(*UNIT, *ROLES, "1", "2", "stop"))
    assert "Nothing was published." in capsys.readouterr().err
    assert [path.name for path in ward.iterdir()] == ["stays.csv"]


def test_a_live_database_is_offered_only_where_a_person_has_one_row(ward, capsys):
    """Who asked for one, and says then that a person has several rows, is asked again."""
    several = ["1", *UNIT, None, "1"]
    ask(Script("person", "y", *ROLES, "4", "2", *several, "stays-release"))
    assert sc.open("stays-release").manifest.mechanism == "histogram"
    assert capsys.readouterr().err.count("Others ask questions one after the other") == 1


def test_a_table_with_nothing_to_publish_is_refused_before_the_questions(ward):
    source, names = ward / "stays.csv", "PatientID,age"
    source.write_text(f"{names}\n")
    with pytest.raises(SourceError, match=r"'stays.csv' has no rows: give a table with rows\."):
        ask(Script())
    source.write_text("\n".join([names, *(f"P{k}," for k in range(50))]))
    with pytest.raises(SourceError, match=r"^No column of 'stays.csv' can be published \(PatientI"):
        ask(Script())


def test_a_release_is_refused_as_a_source(ward, monkeypatch):
    ask(Script(*UNIT, *ROLES, *REST))
    monkeypatch.chdir("stays-release")
    with pytest.raises(SourceError, match=r"'.' is a release, which is public: give a table\."):
        guide.publish_guided(guide.Guided("."), guide.Questions(Script()))


def test_who_withholds_all_columns_is_asked_again(ward, capsys):
    script = Script(*UNIT, "age=drop,sex=drop; illness=drop", *ROLES, *REST)
    ask(script)
    assert "No column is left to publish: choose again." in capsys.readouterr().err


def test_the_proposed_folder_is_new(ward):
    for name in ("stays-release", "stays-release-2", "stays-release-3"):
        ask(Script(*UNIT, *ROLES, "1", "2", None))
        assert Path(name).is_dir()


def test_names_in_lists_may_hold_commas_and_semicolons():
    assert guide._listed('age; sex,"Weight; kg"') == ["age", "sex", "Weight; kg"]
    names = ["Weight, kg", "a;b", "sex", "a = b"]
    listed = ", ".join(f"{guide._quoted(name)}=drop" for name in names)
    assert guide._listed(listed) == [f"{name}=drop" for name in names]


def test_one_person_is_asked_again_where_a_person_has_several_rows(ward, capsys):
    """By default the question comes again; who insists gets the promise about a row."""
    script = Script("person", None, *UNIT, *ROLES, *REST)
    ask(script)
    assert sc.Schema.load("stays.toml").unit == Unit("PatientID", 3)
    sentence = (
        "'PatientID' has the same value in several rows: a person seems to have several. If so, "
        "the promise would be about one row, not about a person."
    )
    assert capsys.readouterr().err.count(sentence) == 1
    Path("stays.toml").unlink()
    ask(Script("person", "y", *ROLES, "1", "2", "rows"))
    assert sc.Schema.load("stays.toml").unit == Unit()


def test_a_column_may_be_withheld_after_its_type_was_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hospital(tmp_path / "stays.csv")
    ask(Script(*UNIT, "Station Nr=numbers", "Station Nr=drop; Diagnose=secret", "yes", *REST))
    assert "Station Nr" not in sc.open("stays-release").evidence.columns
    assert "Station Nr" not in sc.Schema.load("stays.toml")


def test_live_questions_get_a_database(ward, capsys):
    ask(Script("person", "y", *ROLES, "4", "2", "asked"))
    shown = capsys.readouterr()
    assert "Created the database asked." in shown.out
    with sc.Database.open("asked", source="stays.csv") as database:
        assert database.answer("SELECT COUNT(*) FROM t WHERE age < 2").stderr > 0
    assert "scumble db create asked stays.csv --schema stays.toml" in shown.out


def test_who_needs_rows_is_told_how_to_draw_them(ward, capsys):
    ask(Script(*UNIT, *ROLES, "2", "2", "stays-release"))
    line = next(each for each in capsys.readouterr().out.splitlines() if "Draw rows" in each)
    assert run(*shlex.split(line.partition("scumble ")[2])).code == 0
    assert Path("rows.csv").exists()


def test_codes_and_dates_are_asked_about_and_columns_left_out_say_why(ward, capsys):
    """What numbers mean only the owner knows; free text is not published, and says so."""
    lines = (ward / "stays.csv").read_text().splitlines()
    rows = [f"{row},{1 + k % 4},text {k}" for k, row in enumerate(lines[1:] * 3)]
    (ward / "stays.csv").write_text("\n".join([f"{lines[0]},code,note", *rows]) + "\n")
    ask(Script(*UNIT, "code=numbers", *ROLES, *REST))
    told = re.sub(" +", " ", capsys.readouterr().err)
    assert (
        "code known codes 1, 2, 3, 4. If they are numbers that count or measure something, type "
        "code=numbers"
    ) in told
    assert "code known whole numbers from 1 to 4" in told
    assert "note not published Nearly every value occurs once" in told
    assert sc.Schema.load("stays.toml")["code"].domain == IntegerRange(1, 4)


def test_the_order_of_dates_is_never_guessed(ward, capsys):
    """Left out, unless the owner says which number is the day."""
    rows = [f"{1 + k % 12:02}/{1 + k % 11:02}/2024,{'mf'[k % 2]}" for k in range(200)]
    (ward / "stays.csv").write_text("\n".join(["day,sex", *rows]) + "\n")
    ask(Script("person", "yes", "1", "2", "without"))
    told = re.sub(" +", " ", capsys.readouterr().err)
    assert "day not published Left out, as no value tells whether the day or the month" in told
    assert "day=day-first (dates with the day first) or day=month-first (dates with" in told
    assert sc.open("without").evidence.columns == ("sex",)
    ask(Script("person", "day=day-first", "yes", "1", "2", "with"))
    assert set(sc.open("with").evidence.columns) == {"day", "sex"}
    capsys.readouterr()
    (ward / "stays.csv").write_text("".join(f"{row.split(',')[0]}\n" for row in ["day", *rows]))
    ask(Script("person", "yes", "day=month-first", "yes", "1", "2", "days"))
    assert capsys.readouterr().err.count("No column is left to publish: choose again.") == 1


UNKNOWN = (
    "marginal domain cell quasi Fieller sensitive identifier schema neighbour contribution epsilon "
    "sensitivity DP least-squares histogram noise infer".split()
)


def test_the_words_are_those_of_a_clerk(ward, capsys):
    """Names of methods and files, options and the commands to copy stand apart."""
    ask(Script(*UNIT, *ROLES, *REST))
    shown = capsys.readouterr()
    lines = [*shown.err.splitlines(), *shown.out.partition("The same again")[0].splitlines()]
    text = " ".join(line for line in lines if not line.strip().startswith("scumble"))
    text = re.sub(r"Method: +\w+", "Method:", text)
    page = Path("stays-release-certificate.html").read_text("utf-8").partition("<body>")[2]
    text += re.sub("<[^>]+>", " ", page.partition("For experts")[0])
    answer = run("ask", "stays-release", "SELECT AVG(age) FROM t")
    text += answer.out + answer.err
    assert [word for word in UNKNOWN if re.search(rf"(?i)\b{word}", text)] == []


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def fail(*_: object, **__: object) -> None:
    raise ParameterError("no")


@pytest.mark.parametrize("stop", [interrupt, fail])
def test_what_does_not_end_leaves_nothing(
    ward: Path, monkeypatch: pytest.MonkeyPatch, stop: Callable[..., None]
) -> None:
    monkeypatch.setattr(report, "page", stop)
    with pytest.raises((KeyboardInterrupt, ParameterError)):
        ask(Script(*UNIT, *ROLES, *REST))
    assert [path.name for path in ward.iterdir()] == ["stays.csv"]


def test_a_wrong_option_shows_the_words_that_can_be_typed(ward):
    done = run("publish", "stays.csv", "--force")
    assert "Usage: scumble publish [OPTIONS]" in done.err
    assert "Try 'scumble publish -h'" in done.err


def test_without_a_terminal_it_says_what_to_write(ward):
    done = run("publish", "stays.csv")
    assert done.code == 2
    assert "there is no terminal" in done.err
    infer = done.err.partition("Write instead: scumble ")[2].partition(", check that file")[0]
    publish = done.err.partition("and then: scumble ")[2].removesuffix(".\n")
    assert run(*shlex.split(infer)).code == 0
    made = run(*shlex.split(publish))
    assert made.code == 0, made.err
    given = run("publish", "stays.csv", "--schema", "stays.toml")
    assert "Write instead: scumble publish auto stays.csv --schema stays.toml" in given.err


def test_on_a_terminal(ward):
    typed = "".join(f"{answer}\n" for answer in [*UNIT, *ROLES, *REST])
    words = [*child_command(), "publish", "stays.csv"]
    done = on_terminal(words, folder=ward, typed=typed)
    assert done.code == 0, done.text
    assert "1. What does one row stand for?" in done.text
    assert "5. Where to?" in done.text
    assert "Press Enter for the answer in brackets;" in done.text
    assert "The same again, without questions:" in done.text
    assert Path("stays-release").is_dir()


def test_lines_are_wrapped_at_words(ward):
    """The command to copy is not."""
    typed = "".join(f"{answer}\n" for answer in [*UNIT, *ROLES, *REST])
    done = on_terminal([*child_command(), "publish", "stays.csv"], 50, folder=ward, typed=typed)
    lines = done.text.replace("\r", "").splitlines()
    start = lines.index("1. What does one row stand for?")
    plan = lines[start : lines.index("5. Where to?")]
    asked = ("One row is", "Your answer", "Which")  # prompts
    assert [each for each in plan if len(each) > 50 and not each.startswith(asked)] == []
    assert "                  rows. COLUMN names the person." in plan
    command = next(line for line in lines if line.startswith("  scumble publish"))
    assert command.endswith("-o stays-release")


@pytest.mark.parametrize("typed", ["", "event PatientID 3\n"])
def test_ctrl_c_at_a_question_leaves_nothing(ward, typed):
    done = on_terminal(
        [*child_command(), "publish", "stays.csv"], folder=ward, typed=typed, interrupt=4
    )
    assert done.code == 130
    assert "Stopped. Nothing was left half-written." in done.text
    assert "Traceback" not in done.text
    assert [path.name for path in ward.iterdir()] == ["stays.csv"]


def test_ctrl_c_at_a_question_of_infer_ends_like_everywhere(tmp_path):
    (tmp_path / "codes.csv").write_text("code\n" + "1\n2\n" * 20)
    words = [*child_command(), "schema", "infer", "codes.csv", "-o", "codes.toml"]
    done = on_terminal(words, folder=tmp_path, interrupt=4)
    assert (done.code, "What are the values of 'code'?" in done.text) == (130, True)
    assert "Stopped. Nothing was left half-written." in done.text
    assert [path.name for path in tmp_path.iterdir()] == ["codes.csv"]


def test_auto_takes_the_recommended_method(place, tmp_path):
    words = ("publish", "auto", place / "people.csv", "-s", place / "people.toml", "-e", "1", "-o")
    done = run(*words, tmp_path / "v")
    assert done.code == 0, done.err
    assert "was chosen by scumble.recommend" in done.err
    best = sc.recommend(place / "people.toml", rows=3000, epsilon=1).best
    assert sc.open(tmp_path / "v").manifest.mechanism == best.method
    assert run(*words, tmp_path / "v").code == 6
    nothing = run("publish", "auto", place / "people.csv", "-s", place / "people.toml")
    assert (nothing.code, "--epsilon" in nothing.err) == (2, True)


def test_amounts_are_left_out_until_their_limits_are_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_hospital(tmp_path / "stays.csv")
    ask(Script(*UNIT, "Diagnose=secret", "yes", *REST))
    assert "Kosten" not in sc.Schema.load("stays.toml").names
    said = " ".join(capsys.readouterr().err.split())
    assert "To publish them, type the limits that matter, as Kosten=0..50000" in said
    for path in tmp_path.glob("stays*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    write_hospital(tmp_path / "stays.csv")
    wrong = ["Kosten=0..many", "Kosten=5..0"]
    ask(Script(*UNIT, *wrong, "Kosten=0..50000", "Diagnose=secret", "yes", *REST))
    assert sc.Schema.load("stays.toml")["Kosten"].domain == sc.Number(0, 50_000, 0.01)
    said = " ".join(capsys.readouterr().err.split())
    assert "as Kosten=0..50000. Got '0..many' instead." in said
    assert "The lower limit must be below the upper one. Got 5 and 0." in said
