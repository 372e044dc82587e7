"""Sorted runs of packed rows, and Parquet files put together from row groups."""
