"""Everything that needs only a release folder: opening, SQL, estimation, plots."""
