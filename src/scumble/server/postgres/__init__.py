"""The PostgreSQL wire: psql, drivers and BI tools ask data sets as if they were tables."""
