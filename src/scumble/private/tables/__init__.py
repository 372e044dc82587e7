"""Reading private tables and writing published rows."""
