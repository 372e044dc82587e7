"""What owners make with the server: drafts of tables, comparisons, releases and databases."""
