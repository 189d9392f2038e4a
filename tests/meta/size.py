"""The size of the package, as a table. Nothing is forbidden here: `python -m tests.meta.size` prints."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "src" / "telemetry"
UNCLEAR: Final = frozenset(
    {
        "found",
        "said",
        "told",
        "known",
        "made",
        "one",
        "words",
        "place",
        "came",
        "owned",
        "lacks",
        "door",
        "goodbye",
        "reserve",
        "notice",
        "owing",
        "hindrance",
        "obstacle",
    }
)
"""Words that are no names, by the project's rules of language."""
_BLANK: Final = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
)


def main() -> None:
    """Print the figures."""
    sources = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    names = list(_names(trees.values()))
    classes = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
    imports = _imports(trees)
    unclear = sum(name.strip("_") in UNCLEAR for name in names)
    for title, figure in (
        ("lines of Python, without blanks, comments and docstrings", f"{sum(map(_lines, sources.values())):,}"),
        ("files of Python", f"{len(sources):,}"),
        ("all files", f"{sum(1 for path in PACKAGE.parent.rglob('*') if _is_source(path)):,}"),
        ("entries below src/telemetry", f"{sum(1 for path in PACKAGE.iterdir() if _is_entry(path)):,}"),
        ("circles of modules that import each other", f"{sum(1 for _ in _circles(imports)):,}"),
        ("class names used twice or more", f"{sum(number > 1 for number in classes.values()):,}"),
        ("names that say nothing, of all identifiers", f"{unclear / len(names):.2%}"),
    ):
        print(f"{title:60}{figure:>10}")


def _lines(source: str) -> int:
    """Count the lines of code of a module."""
    texts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            texts.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _BLANK:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - texts)


def _names(trees: Iterable[ast.Module]) -> Iterator[str]:
    """Yield each use of an identifier."""
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    yield name
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name
                case ast.keyword(arg=str(name)):
                    yield name


def _imports(trees: Mapping[Path, ast.Module]) -> Mapping[str, set[str]]:
    """Return the modules of the package that each imports when it is loaded."""
    modules = {_module(path): tree for path, tree in trees.items()}
    imports: dict[str, set[str]] = defaultdict(set)
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.Import):
                imports[module].update(alias.name for alias in node.names if alias.name in modules)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    imports[module].update({inner if inner in modules else node.module} & modules.keys())
    return imports


def _circles(imports: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """Yield the groups of modules that reach each other."""
    reached = {module: _reached(module, imports) for module in imports}
    done: set[str] = set()
    for module, others in reached.items():
        circle = {other for other in others if module in reached.get(other, ())}
        if circle - {module} and module not in done:
            done |= circle
            yield circle


def _reached(module: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Return all modules that a module imports, directly or by others."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        for other in imports.get(waiting.pop(), ()):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix not in (".pyc", ".so") and "egg-info" not in str(path)


def _is_entry(path: Path) -> bool:
    return not path.name.startswith("__") and path.name != "py.typed" and path.suffix != ".so"


if __name__ == "__main__":
    main()
