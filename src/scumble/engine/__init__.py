"""The engine: reading tables of any kind, and running SQL with DuckDB."""
