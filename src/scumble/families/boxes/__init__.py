"""Trees of boxes that follow the data."""

from scumble.model.family import Family

FAMILY = Family(
    order=11,
    use="counts",
    mechanisms={
        "quadtree": "Quadtree",
        "kdtree": "KdTree",
        "privtree": "PrivTree",
        "grid": "Grid",
        "mosaic": "Mosaic",
        "dawa": "Dawa",
    },
    publishes={
        "quadtree": "boxes halved again and again, for points on a map",
        "kdtree": "boxes cut near medians",
        "privtree": "boxes that are small where many rows are",
        "grid": "a grid of one to four ordered columns, finer where rows are",
        "mosaic": "boxes cut and merged, for one to four ordered columns",
        "dawa": "intervals of one ordered column that follow the data",
    },
    designs={"regions": ("BoxTree", "BoxTreeReader")},
)
