"""A made-up table of people with baskets, visits, trips and queries, for all tests of lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import scumble as sc

ITEMS = [f"i{number:02}" for number in range(40)]
PAGES = ["home", "news", "shop", "help"]
_SCHEMA = f"""
unit = "row"
[attributes.who]
role = "identifier"
[attributes.items]
role = "sensitive"
type = "set"
values = {ITEMS}
[attributes.pages]
role = "sensitive"
type = "sequence"
values = {PAGES}
[attributes.x]
role = "sensitive"
type = "sequence"
range = [0, 4]
bins = 4
[attributes.y]
role = "sensitive"
type = "sequence"
edges = [0, 1, 4]
[attributes.query]
role = "sensitive"
type = "category"
open = true
[attributes.click]
role = "sensitive"
type = "category"
open = true
"""
SCHEMA = sc.Schema.loads(_SCHEMA)
FEW = sc.Schema.loads(_SCHEMA.replace(str(ITEMS), str(ITEMS[:4])))  # of four items


def people(
    number: int = 3000, *, rows_of_one: int = 1, least: int = 1, items: int = 40
) -> pa.Table:
    """People of one row each, or of several; sequences have `least` to 5 members, and baskets are
    of the first `items` items.
    """
    draw = np.random.default_rng(1)
    shares = 0.6 * 0.93 ** np.arange(40) * (np.arange(40) < items)
    sizes = draw.integers(least, 6, number)
    queries = draw.zipf(1.5, number) % 50
    return pa.table(
        {
            "who": np.arange(number) // rows_of_one,
            "items": [[ITEMS[i] for i in np.flatnonzero(draw.random(40) < shares)] for _ in sizes],
            "pages": [draw.choice(PAGES, size, p=[0.4, 0.3, 0.2, 0.1]).tolist() for size in sizes],
            "x": [draw.uniform(0, 4, size).tolist() for size in sizes],
            "y": [draw.uniform(0, 4, size).tolist() for size in sizes],
            "query": [f"query {each}" for each in queries],
            "click": [f"page {each % 7}" for each in queries],
        }
    )
