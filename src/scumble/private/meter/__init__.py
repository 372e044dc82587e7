"""Private tables behind a meter that charges for every measurement."""
