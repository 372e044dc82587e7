"""scumble: publish tables about people, and answer questions about them, with privacy and error
stated exactly.

import scumble as sc

schema = sc.Schema.load("people.toml")
release = sc.publish("people.csv", schema, epsilon=1)
release.ask("SELECT COUNT(*) FROM people WHERE age > 30 AND occupation = 'Sales'")
"""

from scumble._version import __version__ as __version__
from scumble.families import class_names

# Names are fetched when they are first used, so that `import scumble` and the command line start at
# once. The value is the module, with ":" and the name there if it is another; "*" is the module
# itself. Type checkers read __init__.pyi, which `make options` writes from this table.
_HOME = {
    **class_names(),
    "ALL": "scumble.public.estimate",
    "AskOptions": "scumble.private.database.plan",
    "Attribute": "scumble.model.schema.attribute",
    "BinnedNumber": "scumble.model.schema.domains",
    "Bins": "scumble.model.schema.domains",
    "Boolean": "scumble.model.schema.domains",
    "Category": "scumble.model.schema.domains",
    "Database": "scumble.private.database.database",
    "Dates": "scumble.model.schema.domains",
    "DomainError": "scumble.model.errors",
    "Estimate": "scumble.public.estimate",
    "EstimateTable": "scumble.public.estimate_table",
    "Estimates": "scumble.public.estimate",
    "Guarantee": "scumble.model.privacy.guarantee",
    "IntegerRange": "scumble.model.schema.domains",
    "Ledger": "scumble.private.ledger.ledger",
    "LedgerError": "scumble.model.errors",
    "LiveDatabase": "scumble.private.database.live.database",
    "Number": "scumble.model.schema.numbers",
    "OutputExistsError": "scumble.model.errors",
    "ParameterError": "scumble.model.errors",
    "PromiseError": "scumble.model.errors",
    "PublishOptions": "scumble.private.publish_options",
    "Query": "scumble.model.query",
    "QueryError": "scumble.model.errors",
    "Release": "scumble.public.release",
    "ReleaseError": "scumble.model.errors",
    "Schema": "scumble.model.schema.schema",
    "SchemaError": "scumble.model.errors",
    "ScumbleError": "scumble.model.errors",
    "SourceError": "scumble.model.errors",
    "Spark": "scumble.private.engines.spark",
    "Spelling": "scumble.model.schema.spelling",
    "Table": "scumble.private.publish_options",
    "Unit": "scumble.model.schema.unit",
    "__version__": "scumble._version",
    "classic": "scumble.classic:*",
    "combine": "scumble.public.combined",
    "connect": "scumble.server.client",
    "counts": "scumble.counts:*",
    "lists": "scumble.lists:*",
    "mechanisms": "scumble.private.mechanism",
    "open": "scumble.private.owner:open_saved",
    "primitives": "scumble.private.primitives:*",
    "private_limits": "scumble.private.limits",
    "publish": "scumble.private.publish",
    "publish_linked": "scumble.private.publish",
    "recommend": "scumble.private.recommend",
    "rows": "scumble.rows:*",
    "synthetic": "scumble.synthetic:*",
}

__all__ = sorted(_HOME)

# The mechanisms that people need first; `dir` leaves the others to rows, counts and so on.
_FIRST = (
    "Baskets",
    "Hierarchy",
    "Histogram",
    "Keys",
    "Marginals",
    "Sequences",
    "Subset",
    "Synthesis",
)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'scumble' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    home = import_module(module)
    value = home if attribute == "*" else getattr(home, attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    later = set(class_names()).difference(_FIRST)
    return [name for name in __all__ if name not in later]
