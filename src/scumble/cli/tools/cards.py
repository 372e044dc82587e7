"""Cards: the docstrings of mechanisms as pages of docs/mechanisms/, and as data.

python -m scumble.cli.tools.cards docs/mechanisms
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from scumble.private.mechanism import Mechanism, constructor_parameters, mechanisms

SECTIONS = ("Promises", "Estimate", "Reference", "Differs")


@dataclass(frozen=True)
class Card:
    """The parts of the docstring of a mechanism."""

    name: str
    title: str
    paragraphs: tuple[str, ...]
    sections: dict[str, str]
    signature: str
    parameters: dict[str, str]

    @property
    def summary(self) -> str:
        """The first sentence."""
        return self.paragraphs[0].split(". ")[0].rstrip(".") + "."

    def to_markdown(self) -> str:
        lines = [f"# {self.title} (`{self.name}`)", ""]
        for paragraph in self.paragraphs:
            lines += [paragraph, ""]
        lines += ["```python", f"scumble.{self.title}{self.signature}", "```", ""]
        lines += [f"- `{name}`: {text}" for name, text in self.parameters.items()]
        lines += [""]
        for section in SECTIONS:
            lines += [f"**{section}.** {self.sections[section]}", ""]
        return "\n".join(lines)


def card(mechanism: type[Mechanism]) -> Card:
    """Return the card of a mechanism; its docstring must have every section, in order."""
    text = inspect.getdoc(mechanism) or ""
    starts = list(re.finditer(rf"^({'|'.join(SECTIONS)}): ", text, re.MULTILINE))
    found = [start[1] for start in starts]
    if found != list(SECTIONS):
        raise ValueError(
            f"The card of {mechanism.__name__} needs {SECTIONS} in this order, has {found}."
        )
    ends = [*(start.start() for start in starts[1:]), len(text)]
    parts = zip(starts, ends, strict=True)
    sections = {start[1]: _line(text[start.end() : end]) for start, end in parts}
    before = re.split(r"^Parameters:$", text[: starts[0].start()], flags=re.MULTILINE)[0]
    paragraphs = tuple(_line(part) for part in before.strip().split("\n\n"))
    described = {each.name: each.text for each in constructor_parameters(mechanism)}
    parameters = list(inspect.signature(mechanism.__init__).parameters.values())[1:]
    listed = ", ".join(str(p).split(":")[0] + _default(p) for p in _with_star(parameters))
    return Card(mechanism.name, mechanism.__name__, paragraphs, sections, f"({listed})", described)


def write(folder: Path) -> list[Path]:
    """Write one page per mechanism, and an index; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    cards = [card(mechanism) for mechanism in mechanisms().values()]
    written = []
    for page in cards:
        path = folder / f"{page.name}.md"
        path.write_text(page.to_markdown(), "utf-8")
        written.append(path)
    index = folder / "README.md"
    lines = ["# Mechanisms", "", "Made from the docstrings by `make docs`.", ""]
    lines += [f"- [{page.title}]({page.name}.md): {page.summary}" for page in cards]
    index.write_text("\n".join(lines) + "\n", "utf-8")
    return [*written, index]


def _line(text: str) -> str:
    return " ".join(text.split())


def _with_star(parameters: list[inspect.Parameter]) -> list[inspect.Parameter | str]:
    """Return the parameters, with a bare star before the first that is keyword-only."""
    listed: list[inspect.Parameter | str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in listed:
            listed.append("*")
        listed.append(parameter)
    return listed


def _default(parameter: inspect.Parameter | str) -> str:
    if isinstance(parameter, str) or parameter.default is inspect.Parameter.empty:
        return ""
    return f"={parameter.default!r}"


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(path)
