"""Columns of lists: proposed for a schema, kept between passes."""
