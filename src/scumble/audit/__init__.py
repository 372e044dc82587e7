"""Attempts to break what is promised. An audit can refute, never prove."""
