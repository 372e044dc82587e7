"""The HTTP interface: routes, the gates that every request passes, and formats of answers."""
