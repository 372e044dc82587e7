"""Run the experiments: `python -m research relaxation --quick`."""

from research.commands import app
from scumble.cli import console

if __name__ == "__main__":
    console.run(app, "python -m research")
