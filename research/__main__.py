"""Run the experiments: `python -m research relaxation --quick`."""

from research.commands import app

if __name__ == "__main__":
    app(prog_name="python -m research")
