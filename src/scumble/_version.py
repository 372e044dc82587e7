"""The version of scumble, written once: packaging and the manifests of releases read it here."""

__version__ = "0.1.0"
