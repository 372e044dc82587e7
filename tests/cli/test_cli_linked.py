"""Releases of several tables on the command line: show, query and rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import scumble as sc
from tests.support.terminal import run

JOIN = "SELECT COUNT(*) FROM people JOIN visits ON id = person WHERE ward = 'eye'"


SCHEMAS = {
    "people": '[attributes.id]\nrole = "identifier"\n[attributes.age]\nrole = "quasi"\n'
    'type = "integer"\nrange = [0, 3]',
    "visits": '[attributes.person]\nrole = "identifier"\n[attributes.ward]\nrole = "sensitive"\n'
    'type = "category"\nvalues = ["eye", "heart"]',
}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    release = sc.publish_linked(
        {
            "people": pa.table({"id": range(300), "age": [each % 4 for each in range(300)]}),
            "visits": pa.table(
                {"person": [each // 2 for each in range(600)], "ward": ["eye", "heart"] * 300}
            ),
        },
        {name: sc.Schema.loads(text) for name, text in SCHEMAS.items()},
        sc.Synthesis(["age"], epsilon=5, delta=1e-9, neighbours="add_remove", contribution=2),
        keys={"people": "id", "visits": "person"},
        options=sc.PublishOptions(seed=1),
    )
    return release.save(tmp_path_factory.mktemp("linked") / "hospital", insecure=True)


def test_show_names_tables_keys_and_the_promise(hospital: Path) -> None:
    shown = run("show", hospital).out
    assert "visits.person is the people.id of a row" in shown
    assert f"scumble show {hospital / 'visits'}" in shown.replace("\n", "")
    assert "FROM visits WHERE ward = 'eye'" in shown
    assert "all tables together" in " ".join(shown.split())
    found = run("show", hospital, "--json").json
    assert found["keys"] == {"people": "id", "visits": "person"}
    assert found["tables"]["visits"]["mechanism"] == "synthesis"
    assert "visits" in run("show", hospital / "visits").out


def test_questions_about_one_table_have_an_error_and_joins_are_a_model(hospital: Path) -> None:
    one = run("ask", hospital, "SELECT COUNT(*) FROM people", "--json").json
    assert one[0]["stderr"] is not None
    joined = run("ask", hospital, JOIN)
    assert "model: counted in joined synthetic rows" in joined.err
    assert "no interval" in joined.out
    wrong = run("ask", hospital, "SELECT COUNT(*) FROM doctors")
    assert wrong.code == 5
    assert "people, visits. Got doctors" in wrong.err


def test_rows_go_to_a_file_for_each_table(hospital: Path, tmp_path: Path) -> None:
    words = ("rows", hospital, "-n", "50", "--seed", "1", "-o")
    said = run(*words, tmp_path / "drawn.csv").err
    assert "Wrote 50 rows to" in said
    assert "visits: 2 noisy tables of 1 attribute" in said
    people = pyarrow.csv.read_csv(tmp_path / "drawn-people.csv")
    visits = pyarrow.csv.read_csv(tmp_path / "drawn-visits.csv")
    assert set(visits["person"].to_pylist()) <= set(people["id"].to_pylist())
    run(*words, tmp_path / "drawn.parquet")
    typed = pyarrow.parquet.read_table(tmp_path / "drawn-visits.parquet")
    assert typed.to_pylist() == visits.to_pylist()
    again = run(*words, tmp_path / "drawn.csv")
    assert again.code == 6
    assert "drawn-people.csv already exists" in again.err
    nowhere = run("rows", hospital)
    assert nowhere.code == 2
    assert "--output FILE" in nowhere.err
    fields = run("rows", hospital, "-n", "3", "--json").json
    assert len(fields["people"]["rows"]) == 3
    assert fields["visits"]["quality"]


def test_commands_for_one_table_say_so(hospital: Path) -> None:
    refused = run("release", "marginal", hospital, "age")
    assert refused.code != 0
    assert "give the folder of one" in refused.err


PROMISE = ("-e", "5", "--delta", "1e-9", "--neighbours", "add_remove", "--contribution", "2")
COLUMNS = ("-a", "people=age", "-a", "visits=ward,age", "--key", "people=id")


def tables(folder: Path) -> tuple[str, str]:
    return tuple(f"{name}={folder / name}.parquet" for name in ("people", "visits"))


def given(folder: Path) -> list[str]:
    """The words of the command but for where the releases go."""
    return ["publish", "linked", *tables(folder), *COLUMNS, "--key", "visits=person", *PROMISE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pyarrow.parquet.write_table(
        pa.table({"id": range(60), "age": [each % 4 for each in range(60)]}),
        tmp_path / "people.parquet",
    )
    pyarrow.parquet.write_table(
        pa.table({"person": range(60), "ward": ["eye", "heart"] * 30}), tmp_path / "visits.parquet"
    )
    for name, text in SCHEMAS.items():
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path


def test_linked_publishes_several_tables(folder: Path) -> None:
    done = run(*given(folder), "-o", folder / "view")
    assert done.code == 0, done.err
    assert "visits.person is the people.id of a row" in done.out
    assert sc.open(folder / "view").given == {"visits": ("age",)}
    again = run(*given(folder), "-o", folder / "view")
    assert again.code != 0
    assert "already exists" in again.err


def test_linked_names_the_option_for_a_key_that_is_none(folder: Path) -> None:
    words = given(folder)
    words[words.index("visits=person")] = "visits=ward"
    refused = run(*words, "-o", folder / "view")
    assert "--key must be an attribute of 'visits' with the role identifier" in refused.err


def test_linked_says_which_domains_were_read_from_the_data(folder: Path) -> None:
    (folder / "visits.toml").write_text(SCHEMAS["visits"] + "\nfrom_data = true")
    done = run(*given(folder), "-o", folder / "view")
    assert "Note: visits: the possible values of ward were read from the private data" in done.err
    assert "The possible values of ward were read from the private data" in done.out


def test_linked_leaves_out_what_is_outside_only_if_told(folder: Path) -> None:
    visits = pa.table({"person": range(60), "ward": ["eye", "ear"] * 30})
    pyarrow.parquet.write_table(visits, folder / "visits.parquet")
    words = (*given(folder), "-o", folder / "view")
    refused = run(*words)
    assert refused.code != 0
    assert "Table 'visits': Column 'ward', row 2" in refused.err
    done = run(*words, "--outside", "drop", "--jobs", "2")
    assert done.code == 0, done.err
    assert "Note: visits: Rows with a value of 'ward' outside its domain were left out" in done.err
    nowhere = run(*given(folder))
    assert nowhere.code == 2
    assert "--output FOLDER or --to ADDRESS" in nowhere.err


@pytest.mark.slow
def test_postgresql_has_the_tables_the_releases_and_the_rows(folder: Path, postgresql) -> None:
    database, view, rows = postgresql.shared_database, *map(postgresql.table, ("view", "rows"))
    for name in ("people", "visits"):
        postgresql.ingest(
            database, f"link_{name}", pyarrow.parquet.read_table(folder / f"{name}.parquet")
        )
    words = [f"{name}={database}" for name in ("people", "visits")]
    for name in ("people", "visits"):
        words += ["--table", f"{name}=link_{name}", "-s", f"{name}={folder / name}.toml"]
    done = run("publish", "linked", *words, *given(folder)[4:], "--to", view)
    assert done.code == 0, done.err
    assert run("ask", view, JOIN).code == 0
    said = run("rows", view, "-n", "40", "--seed", "1", "-o", rows)
    assert said.code == 0, said.err
    assert "Wrote 40 rows to" in said.err
    people, visits = (
        _read(database, f"{rows.partition('?')[0].rpartition('.')[2]}_{name}")
        for name in ("people", "visits")
    )
    drawn = sc.open(view).rows(40, seed=1)
    assert people.to_pylist() == drawn["people"].to_pylist()
    assert visits.to_pylist() == drawn["visits"].to_pylist()
    again = run("rows", view, "-o", rows)
    assert again.code != 0
    assert "already exists. Use --force to replace it." in again.err
    assert run("rows", view, "-n", "5", "-o", rows, "--force").code == 0
    foreign = f"{database.partition('?')[0]}/public.link_people?{database.partition('?')[2]}"
    kept = run(
        "rows",
        f"{view.partition('?')[0]}_people?{view.partition('?')[2]}",
        "-o",
        foreign,
        "--force",
    )
    assert kept.code != 0
    assert "is not replaced" in kept.err
    assert _read(database, "link_people").num_rows == 60


def _read(database: str, name: str) -> pa.Table:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {name}")
        return cursor.fetch_arrow_table()


REFUSED = [
    ("--key visits=person", "", "--key visits=COLUMN"),
    ("visits=person", "visit=person", "no table 'visit'. The tables are people, visits."),
    ("--key visits=person", "--key person", "Got 'person' instead"),
    ("-a people=age ", "", "what to publish of the people: --attributes people=COLUMNS"),
    ("-e 5", "-e -5", "--epsilon must be"),
    ("-e 5", "", "needs --epsilon"),
    ("-e 5 --delta 1e-9", "", "needs --epsilon and --delta"),
    ("-e 5", "--epsilom 5", "No such option: --epsilom"),
    ("visits.parquet", "nothing.parquet", "nothing.toml"),
    ("visits.parquet", "nothing.parquet -s visits={}/visits.toml", "nothing.parquet"),
    ("visits=ward,age", "visits=ward,height", "neither a column of 'visits'"),
    ("people={0}/people.parquet visits", "visits", "the people and another table"),
]


def test_linked_refuses_in_one_sentence(folder: Path, subtests: pytest.Subtests) -> None:
    text = " ".join(given(folder))
    for old, new, said in REFUSED:
        with subtests.test(new=new, old=old):
            old, new = old.format(folder), new.format(folder)
            assert old in text
            done = run(*text.replace(old, new, 1).split(), "-o", folder / "view")
            assert done.code not in (0, 1)
            assert said in " ".join(done.err.split())
            assert not (folder / "view").exists()
