"""Jinja environments, all with the same settings."""

import functools
from pathlib import Path

import jinja2


@functools.cache
def environment(module: str, autoescape: bool = False) -> jinja2.Environment:
    """The environment of the folder `templates` next to a module's `__file__`. `autoescape`: for HTML."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(module).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
    )
