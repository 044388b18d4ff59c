"""Takes secrets out of what servers send back, before it is kept or shown."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Iterable
from urllib.parse import quote

MASK = "••••"
TEXT_MAX = 300
# Shorter values (`X-Tier: 1`) are no secrets, and masking them would eat the text around.
SECRET_MIN = 4


class Redactor:
    """Knows the forms in which a server may echo each secret: as it is, in JSON, in a URL, in base64."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            # "Bearer sk-1" is echoed with and without its scheme, "a=1; b=2" piece by piece.
            for part in (secret, *secret.replace(";", " ").split()):
                forms.update((part, json.dumps(part)[1:-1], quote(part, safe="")))
                forms.add(base64.b64encode(part.encode()).decode())
        self._forms = sorted((form for form in forms if len(form) >= SECRET_MIN), key=len, reverse=True)

    def text(self, text: str, longest: int = TEXT_MAX) -> str:
        """`text` without secrets and control characters, cut to `longest` characters."""
        for form in self._forms:
            text = text.replace(form, MASK)
        text = " ".join("".join(" " if unicodedata.category(char) == "Cc" else char for char in text).split())
        return text if len(text) <= longest else text[: longest - 1] + "…"
