"""A MkDocs hook: the pages show the pictures of ``screenshots/``, which stands beside ``docs/`` for README too."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PICTURES = Path(__file__).parents[1] / "screenshots"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures to the site."""
    for picture in sorted(PICTURES.glob("*.svg")):
        files.append(File.generated(config, f"screenshots/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Turn the paths that GitHub needs into those of the site."""
    return markdown.replace("](../screenshots/", "](screenshots/")
