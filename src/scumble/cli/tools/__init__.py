"""Commands and programs about scumble itself: the doctor, and what writes cards and options."""
