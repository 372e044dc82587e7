"""Sets of items."""

from scumble.model.family import Family

FAMILY = Family(
    order=15,
    use="lists",
    mechanisms={"baskets": "Baskets", "diffpart": "DiffPart"},
    publishes={
        "baskets": "frequent items and sets of items",
        "diffpart": "whole baskets that many people have",
    },
    designs={
        "hub tables": ("HubTables", "HubReader"),
        "itemsets": ("Itemsets", "ItemsetReader"),
        "whole baskets": ("WholeBaskets", "WholeBasketReader"),
    },
    verbs=dict.fromkeys(("top", "rules", "drawn_rows"), "FrequentSets"),
    views={"baskets": ("baskets", "diffpart")},
)
