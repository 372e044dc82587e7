"""What MkDocs does beside its own work when it builds the site (`make site`).

Pages that live outside `docs/` (the changelog, the reproductions with their figures) and the
notebooks become pages of the site, and links between them are written for the place that each page
has there. All links in the repository stay as they are, so that they also work in a code browser.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
NOTEBOOKS = "docs/notebooks/"
# Files outside of docs/, by their path in the repository; the value is their place on the site.
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "research/README.md": "research/experiments.md",
    "research/reproductions.md": "research/reproductions.md",
}
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
_IMAGES = {"image/svg+xml": "svg", "image/png": "png"}


def site_path(path: str) -> str:
    """Return where a file of the repository is on the site; the path itself if it is not there."""
    if path.startswith(NOTEBOOKS) and path.endswith(".ipynb"):
        path = path.removesuffix(".ipynb") + ".md"
    return OUTSIDE.get(path, path.removeprefix("docs/"))


def repository_path(uri: str) -> str:
    """Return the file of the repository that a page of the site is made of."""
    if f"docs/{uri}".startswith(NOTEBOOKS):
        return f"docs/{uri.removesuffix('.md')}.ipynb"
    return {place: path for path, place in OUTSIDE.items()}.get(uri, f"docs/{uri}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside `docs/`, their figures, and one page for each notebook."""
    for path, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    for figure in sorted((ROOT / "research" / "figures").glob("*.svg")):
        place = f"research/figures/{figure.name}"
        files.append(File.generated(config, place, abs_src_path=str(figure)))
    for notebook in sorted((ROOT / NOTEBOOKS).glob("*.ipynb")):
        text, images = notebook_page(json.loads(notebook.read_text("utf-8")), notebook.stem)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=text))
        for name, content in images.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write each link for the place that its target has on the site."""
    uri = page.file.src_uri
    source = posixpath.dirname(repository_path(uri))

    def rewritten(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(source, found[2]))
        place = site_path(target)
        if files.get_file_from_path(place) is None:
            return found[0]
        return found[1] + posixpath.relpath(place, posixpath.dirname(uri) or ".") + found[3]

    return _LINK.sub(rewritten, markdown)


def notebook_page(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and the images in its outputs by file name."""
    parts: list[str] = []
    images: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(_fenced(source, "python"))
            parts += [_output(each, stem, images) for each in cell["outputs"]]
    parts.insert(1, f"*This page is a [notebook]({stem}.ipynb){{ download }}: get it and run it.*")
    return "\n\n".join(part for part in parts if part) + "\n", images


def _output(output: dict[str, Any], stem: str, images: dict[str, bytes]) -> str:
    """Return one output of a cell as Markdown; an image is put into `images` and linked."""
    if output["output_type"] == "stream":
        return _fenced("".join(output["text"]), "text")
    data = output.get("data", {})
    for kind, suffix in _IMAGES.items():
        if kind in data:
            content = "".join(data[kind])
            name = f"{stem}-{len(images) + 1}.{suffix}"
            images[name] = content.encode() if suffix == "svg" else base64.b64decode(content)
            return f"![Output of the code above]({name})"
    return _fenced("".join(data.get("text/plain", "")), "text")


def _fenced(text: str, language: str) -> str:
    text = text.rstrip("\n")
    css = " .output" if language == "text" else ""
    return f"``` {{ .{language}{css} }}\n{text}\n```" if text else ""
