"""Python source as escaped, lightly coloured HTML.

The source is hostile text: everything is escaped, nothing is parsed or executed, and no input raises.
The colours come from a pattern, not a lexer: source that it does not match is shown without colour.
"""

import keyword
import re

from markupsafe import Markup, escape

LIMIT = 40_000
"""Characters shown; a longer text is cut, with a note."""

_TOKEN = re.compile(
    r"""(?P<c>\#[^\n]*)
      | (?P<s>\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<d>@[A-Za-z_][\w.]*)
      | (?P<k>\b(?:KEYWORDS)\b)
      | (?P<t>\b(?:tl|triton|torch)\b(?:\.\w+)*)
      | (?P<n>\b\d[\w.]*)""".replace("KEYWORDS", "|".join([*keyword.kwlist, "self"])),
    re.VERBOSE,
)


def python(source: str) -> Markup:
    """HTML for the inside of `<pre><code>`: escaped text with `<i class=...>` around some tokens."""
    text, rest = source[:LIMIT], len(source) - LIMIT
    parts: list[Markup] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts.append(escape(text[end : token.start()]))
        parts.append(Markup('<i class="{}">{}</i>').format(token.lastgroup, token.group()))
        end = token.end()
    parts.append(escape(text[end:]))
    if rest > 0:
        parts.append(Markup("\n… {} more characters").format(rest))
    return Markup("").join(parts)
