"""What releases say about bins, periods and items, in words that are true of them."""

from __future__ import annotations

from datetime import date

import pyarrow as pa

import scumble as sc
from scumble.cli.printing import warnings
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category, Dates
from scumble.model.schema.hierarchies import value_labels

HEIGHT = Attribute("height", "quasi", Bins(tuple(range(150, 201, 5))))
BORN = Attribute("born", "quasi", Dates(date(1980, 1, 1), date(1999, 12, 31), "year"))
ILL = Attribute("ill", "sensitive", Category(("no", "yes")))


def test_an_answer_that_cuts_a_bin_is_not_called_exact() -> None:
    schema = sc.Schema((HEIGHT, ILL))
    heights = [150 + number * 49 / 400 for number in range(400)]
    table = pa.table({"height": heights, "ill": ["no", "yes"] * 200})
    release = sc.publish(table, schema, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1))
    cut = release.answer("SELECT COUNT(*) FROM t WHERE height < 172")
    assert cut.method == "no noise: the interval holds all that the bins allow"
    assert cut.interval(0.95) == (164, 205)
    assert release.answer("SELECT COUNT(*) FROM t WHERE height < 170").method.startswith("exact")
    noisy = release.answer("SELECT COUNT(*) FROM t WHERE height < 172 AND ill = 'yes'")
    assert "no noise" not in noisy.method


def test_labels_of_bins_and_periods() -> None:
    assert value_labels(HEIGHT.domain)[::9] == ["[150, 155)", "[195, 200]"]
    assert value_labels(BORN.domain)[:2] == ["1980", "1981"]
    assert value_labels(Dates(date(1980, 1, 1), date(1980, 2, 1), "month"))[1] == "1980-02"
    assert value_labels(Dates(date(1980, 1, 1), date(1980, 1, 2)))[1] == "1980-01-02"
    pairs, fours = HEIGHT.levels.labels[1:3]
    assert (pairs[0], pairs[-1], fours[-1]) == ("[150, 160)", "[190, 200]", "[190, 200]")
    assert BORN.levels.labels[1][0] == "1980 to 1981"


def test_exported_rows_show_edges_and_years() -> None:
    schema = sc.Schema((HEIGHT, BORN, ILL))
    years = [date(1980 + number % 4, 5, 1) for number in range(400)]
    columns = {"height": [151.0] * 399 + [198.0], "born": years, "ill": ["no", "yes"] * 200}
    release = sc.publish(
        pa.table(columns), schema, sc.Generalise(k=50), options=sc.PublishOptions(seed=1)
    )
    rows = release.generalised.labelled()
    allowed = {
        *value_labels(HEIGHT.domain),
        *(t for level in HEIGHT.levels.labels[1:] for t in level),
    }
    assert set(rows["height"].to_pylist()) <= allowed
    assert all("-01" not in text for text in rows["born"].to_pylist())


def test_items_read_from_the_data_are_told() -> None:
    table = pa.table({"items": [["a", "b"], ["b"], ["c", "a"]] * 100})
    schema = sc.Schema.infer(table, sensitive=["items"])
    baskets = sc.Baskets("items", epsilon=1, neighbours="add_remove", top=3)
    release = sc.publish(table, schema, baskets, options=sc.PublishOptions(seed=1))
    assert release.schema.from_data == ("items",)
    assert "the possible values of items were read from the private data" in warnings(release)[0]
    checked = sc.publish(table, schema.declare_public(), baskets, options=sc.PublishOptions(seed=1))
    assert checked.schema.from_data == ()
