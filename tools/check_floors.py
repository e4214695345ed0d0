#!/usr/bin/env python3
"""Each file includes only floors below its own: check_floors.py [ROOT].

Floors are the folders of src/, listed here from low to high. `formats` and `report` stand aside:
they see base, platform and the public headers, and only models and above see them; `report` writes
its JSON with `formats`. A public header belongs to the lowest floor that needs its declarations.
apps/ and tests/ may include everything, nothing in src/ includes them.
"""

import re
import sys
from pathlib import Path

FLOORS = ["base", "platform", "kernels", "ops", "layers", "models", "train", "tools", "lab"]
RANK = {floor: rank for rank, floor in enumerate(FLOORS)} | {"learn": FLOORS.index("lab")}
ASIDE = {"formats": {"base", "platform"}, "report": {"base", "platform", "formats"}}
ASIDE_SEEN_FROM = RANK["models"]

PUBLIC_HEADERS = {
    "activation.h": "base",
    "attention.h": "layers",
    "bench.h": "tools",
    "embedding.h": "layers",
    "error.h": "base",
    "dtype.h": "base",
    "ffn.h": "layers",
    "ffn_counts.h": "layers",
    "fourfold.h": "lab",
    "learn.h": "learn",
    "matrix.h": "base",
    "norm.h": "ops",
    "position.h": "ops",
    "profile.h": "tools",
    "router.h": "base",
    "runtime.h": "platform",
    "tools.h": "tools",
    "trace.h": "tools",
    "transformer_block.h": "layers",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(fourfold/[^>]+)>)')
SOURCES = {".h", ".cpp"}


def rule_broken(here: str, header: str, root: Path) -> str | None:
    """What is wrong with a file of floor `here` (or "include" for a public header, with its floor
    after a colon) including `header`; None when nothing is."""
    folder, _, rest = header.partition("/")
    if not rest or ".." in header:
        return f'"{header}" must be included by its full path from src/ or include/'
    is_public_file = here.startswith("include:")
    here = here.removeprefix("include:")
    if folder == "fourfold":
        floor = PUBLIC_HEADERS.get(rest)
        if floor is None:
            return f"{header} has no floor: add it to PUBLIC_HEADERS"
        if here in ASIDE or RANK[floor] <= RANK[here]:
            return None
        return f"{here} must not include {header}, which belongs to {floor}"
    if is_public_file:
        return f"a public header must not include {header}, which is not installed"
    if not (root / "src" / folder).is_dir():
        # Headers of libraries are written with <>, those of apps/ and tests/ have no place in src/.
        return f"{header} is in no floor of src/"
    if folder == here:
        return None
    if here in ASIDE:
        allowed = folder in ASIDE[here]
    elif folder in ASIDE:
        allowed = RANK[here] >= ASIDE_SEEN_FROM
    elif folder in RANK:
        allowed = RANK[folder] < RANK[here]
    else:
        return f"{folder} is no known floor"
    return None if allowed else f"{here} must not include {header}"


def check_file(path: Path, here: str, root: Path) -> list[str]:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        problem = rule_broken(here, match.group(1) or match.group(2), root)
        if problem is not None:
            found.append(f"{path.relative_to(root)}:{number}: {problem}")
    return found


def check_tree(root: Path) -> list[str]:
    found = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in SOURCES:
            continue
        here = path.relative_to(root / "src").parts[0]
        if here in RANK or here in ASIDE:
            found += check_file(path, here, root)
        else:
            found.append(f"{path.relative_to(root)}: {here} is no known floor")
    for path in sorted((root / "include/fourfold").glob("*.h")):
        floor = PUBLIC_HEADERS.get(path.name)
        if floor is None:
            found.append(f"{path.relative_to(root)}: no floor: add it to PUBLIC_HEADERS")
        else:
            found += check_file(path, f"include:{floor}", root)
    return found


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check_tree(root)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
