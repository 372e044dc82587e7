"""`scumble demo`: fictitious people, published both ways, asked five questions, on one page."""
