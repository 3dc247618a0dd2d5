"""What the driver's web server says."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def fetch(address: str) -> Any:
    """A JSON document."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        return json.load(answer)
