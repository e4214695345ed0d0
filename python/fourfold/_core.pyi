# The compiled part; only the package itself calls it.
from typing import Any

def __getattr__(name: str) -> Any: ...
