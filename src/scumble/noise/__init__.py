"""The only room that draws randomness: a secure source, exact samplers, and the laws of their
errors.

Import from the file that has the noun: this package imports nothing by itself, because its laws
stand on the public side of the wall and its samplers on the private side.
"""
