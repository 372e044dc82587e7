"""Where a release is kept: in a folder of files, or in tables of a database."""
