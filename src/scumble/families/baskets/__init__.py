"""Sets of items."""

from scumble.model.family import Family

FAMILY = Family(
    order=14,
    mechanisms={"baskets": "Baskets", "diffpart": "DiffPart"},
    designs={
        "hub tables": ("HubTables", "HubReader"),
        "itemsets": ("Itemsets", "ItemsetReader"),
        "whole baskets": ("WholeBaskets", "WholeBasketReader"),
    },
    verbs=dict.fromkeys(("top", "rules", "drawn_rows"), "FrequentSets"),
)
