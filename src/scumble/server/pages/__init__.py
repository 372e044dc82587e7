"""The web pages of the server: for analysts, owners and auditors."""
