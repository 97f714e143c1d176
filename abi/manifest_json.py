"""How a manifest is written as JSON and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hotfire.abi.ctype import Type, parse_type
from hotfire.abi.manifest import SCHEMA, Constant, Enum, Field, Function, Manifest, Record
from hotfire.errors import InputError

Item = TypeVar("Item")


def to_text(manifest: Manifest, locations: bool) -> str:
    """Sorted JSON, one line an item and one line a field."""
    return _lines(_tree(manifest, locations), "") + "\n"


def _tree(manifest: Manifest, locations: bool) -> dict[str, Any]:
    def table(items: Mapping[str, Item], write: Callable[[Item], dict[str, Any]]) -> dict[str, Any]:
        return {name: write(items[name]) | reached(name) for name in sorted(items)}

    def reached(name: str) -> dict[str, Any]:
        return {} if name in manifest.declared else {"reached": True}

    def place(item: Record | Enum | Function | Constant) -> dict[str, Any]:
        return {"location": item.location} if locations and item.location else {}

    return {
        "schema": SCHEMA,
        "source": manifest.source,
        "target": manifest.target,
        "pointer_size": manifest.pointer_size,
        "defines": sorted(manifest.defines),
        "records": table(manifest.records, lambda r: write_record(r, locations) | place(r)),
        "enums": table(manifest.enums, lambda e: _enum(e) | place(e)),
        "functions": table(manifest.functions, lambda f: _function(f) | place(f)),
        "constants": table(manifest.constants, lambda c: {"value": c.value} | place(c)),
        "typedefs": table(manifest.typedefs, lambda t: {"type": str(t)}),
        "redirects": {name: manifest.redirects[name] for name in sorted(manifest.redirects)},
        "exports": None if manifest.exports is None else sorted(manifest.exports),
        "needed": {name: sorted(manifest.needed[name]) for name in sorted(manifest.needed)},
        "notes": list(manifest.notes),
    }


def write_record(record: Record, locations: bool = False) -> dict[str, Any]:
    """A record as JSON, without its name."""
    tree: dict[str, Any] = {"kind": record.kind}
    if record.opaque:
        tree["opaque"] = True
    else:
        tree |= {"size": record.size, "align": record.align}
        tree["fields"] = [_field(member, locations) for member in record.fields]
    if record.packed:
        tree["packed"] = True
    return tree | _named(record)


def _named(item: Record | Enum) -> dict[str, Any]:
    tree: dict[str, Any] = {"aliases": sorted(item.aliases)} if item.aliases else {}
    return tree if item.tagged else tree | {"tagged": False}


def _field(member: Field, locations: bool) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": member.name, "type": str(member.type)}
    if member.bit_width is None:
        tree |= {"offset": member.offset}
    else:
        tree |= {"bit_offset": member.bit_offset, "bit_width": member.bit_width}
    if locations and member.location:
        tree["location"] = member.location
    return tree


def _enum(enum: Enum) -> dict[str, Any]:
    values = [{"name": name, "value": value} for name, value in enum.values]
    scoped = {"scoped": True} if enum.scoped else {}
    return {"base": str(enum.base), "values": values} | _named(enum) | scoped


def _function(function: Function) -> dict[str, Any]:
    tree: dict[str, Any] = {"type": str(function.type)}
    if any(function.names):
        tree["names"] = list(function.names)
    if not function.returns_known:
        tree["returns_known"] = False
    return tree


def _lines(tree: Any, indent: str) -> str:
    """JSON in which whatever holds no further list or object stays on one line."""
    values = list(tree.values()) if isinstance(tree, dict) else tree
    if not isinstance(tree, dict | list) or not any(isinstance(v, dict | list) for v in values):
        return json.dumps(tree)
    inner = indent + "  "
    if isinstance(tree, dict):
        items = [f"{json.dumps(key)}: {_lines(value, inner)}" for key, value in tree.items()]
        brackets = "{}"
    else:
        items = [_lines(value, inner) for value in tree]
        brackets = "[]"
    return brackets[0] + "\n" + ",\n".join(inner + i for i in items) + "\n" + indent + brackets[1]


def from_json(tree: Any, name: str) -> Manifest:
    """The inverse of `to_text`, from the parsed JSON."""
    if not isinstance(tree, dict) or "schema" not in tree or "records" not in tree:
        raise InputError(
            f"{name}: expected a manifest as `hotfire abi manifest` writes it, got other JSON"
        )
    if tree["schema"] != SCHEMA:
        raise InputError(
            f"{name}: expected a manifest of schema {SCHEMA}, got {tree['schema']!r}; "
            "write it again"
        )
    try:
        return _manifest(tree)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{name}: the manifest is damaged ({type(error).__name__}: {error}); write it again"
        ) from error


def _manifest(tree: Mapping[str, Any]) -> Manifest:
    types: dict[str, Type] = {}

    def read(text: str) -> Type:
        # The same few types recur thousands of times.
        if text not in types:
            types[text] = parse_type(text)
        return types[text]

    return Manifest(
        source=str(tree["source"]),
        target=str(tree["target"]),
        pointer_size=int(tree["pointer_size"]),
        defines=tuple(tree["defines"]),
        declared=frozenset(
            name
            for table in ("records", "enums", "functions", "constants", "typedefs")
            for name, item in tree[table].items()
            if not item.get("reached")
        )
        | frozenset(tree["redirects"]),
        records={n: read_record(n, r, read) for n, r in tree["records"].items()},
        enums={n: _read_enum(n, e, read) for n, e in tree["enums"].items()},
        functions={n: _read_function(n, f, read) for n, f in tree["functions"].items()},
        constants={
            n: Constant(n, c["value"], c.get("location", "")) for n, c in tree["constants"].items()
        },
        typedefs={n: read(t["type"]) for n, t in tree["typedefs"].items()},
        redirects=dict(tree["redirects"]),
        exports=None if tree["exports"] is None else tuple(tree["exports"]),
        needed={n: tuple(v) for n, v in tree["needed"].items()},
        notes=tuple(tree["notes"]),
    )


def read_record(
    name: str, tree: Mapping[str, Any], read: Callable[[str], Type] = parse_type
) -> Record:
    """The inverse of `write_record`."""
    fields = []
    for member in tree.get("fields", ()):
        width = member.get("bit_width")
        offset = int(member["bit_offset"]) if width is not None else int(member["offset"]) * 8
        place = member.get("location", "")
        fields.append(Field(member["name"], read(member["type"]), offset, width, place))
    return Record(
        name=name,
        kind=tree["kind"],
        size=int(tree.get("size", 0)),
        align=int(tree.get("align", 1)),
        fields=tuple(fields),
        packed=bool(tree.get("packed", False)),
        opaque=bool(tree.get("opaque", False)),
        aliases=tuple(tree.get("aliases", ())),
        tagged=bool(tree.get("tagged", True)),
        location=tree.get("location", ""),
    )


def _read_enum(name: str, tree: Mapping[str, Any], read: Callable[[str], Type]) -> Enum:
    values = tuple((value["name"], int(value["value"])) for value in tree["values"])
    aliases = tuple(tree.get("aliases", ()))
    tagged = bool(tree.get("tagged", True))
    place, scoped = tree.get("location", ""), bool(tree.get("scoped", False))
    return Enum(name, read(tree["base"]), values, aliases, tagged, place, scoped)


def _read_function(name: str, tree: Mapping[str, Any], read: Callable[[str], Type]) -> Function:
    return Function(
        name=name,
        type=read(tree["type"]),
        names=tuple(tree.get("names", ())),
        returns_known=bool(tree.get("returns_known", True)),
        location=tree.get("location", ""),
    )
