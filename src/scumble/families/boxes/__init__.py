"""Trees of boxes that follow the data."""

from scumble.model.family import Family

FAMILY = Family(
    order=11,
    mechanisms={
        "quadtree": "Quadtree",
        "kdtree": "Kdtree",
        "privtree": "PrivTree",
        "grid": "Grid",
        "mosaic": "Mosaic",
        "dawa": "Dawa",
    },
    designs={"regions": ("BoxTree", "BoxTreeReader")},
)
