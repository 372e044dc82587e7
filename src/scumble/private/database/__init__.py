"""The statistical database: live answers under one promise."""
