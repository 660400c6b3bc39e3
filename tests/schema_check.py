#!/usr/bin/env python3
"""Keeps docs/schema true: every shipped machine and every golden status must be valid, every field must be described, and the
GPU vendors are those of src/model/vendors.hpp. (What the queue prints is checked where it is printed:
tests/system/test_queue_json.py.)

A small validator of the JSON Schema words those files use (an unknown word is an error, so none is passed over in silence).
usage: schema_check.py SOURCE_DIR [SCHEMA FILE...]
"""
import json
import pathlib
import re
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
IGNORED = {"$schema", "$defs", "title", "description"}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def problems(value, schema, root, path="$"):
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from problems(value, root["$defs"][name], root, path)
        return
    for word, wanted in schema.items():
        if word == "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            if not any(is_type(value, name) for name in names):
                yield f"{path}: {json.dumps(value)[:60]} is not {' or '.join(names)}"
                return
        elif word == "const" and value != wanted:
            yield f"{path}: not {wanted!r}"
        elif word == "enum" and value not in wanted:
            yield f"{path}: {value!r} is none of {wanted}"
        elif word == "minimum" and is_type(value, "number") and value < wanted:
            yield f"{path}: {value} is below {wanted}"
        elif word == "pattern" and isinstance(value, str) and not re.search(wanted, value):
            yield f"{path}: {value!r} does not look like {wanted}"
        elif word == "minItems" and isinstance(value, list) and len(value) < wanted:
            yield f"{path}: fewer than {wanted}"
        elif word == "maxItems" and isinstance(value, list) and len(value) > wanted:
            yield f"{path}: more than {wanted}"
        elif word == "items" and isinstance(value, list):
            for i, item in enumerate(value):
                yield from problems(item, wanted, root, f"{path}[{i}]")
        elif word == "required" and isinstance(value, dict):
            yield from (f"{path}: {key} is missing" for key in wanted if key not in value)
        elif word == "properties" and isinstance(value, dict):
            for key in value.keys() & wanted.keys():
                yield from problems(value[key], wanted[key], root, f"{path}.{key}")
        elif word == "additionalProperties" and isinstance(value, dict):
            yield from (f"{path}: {key} is not described" for key in sorted(value.keys() - schema["properties"].keys()))
        elif word not in IGNORED | {"type", "const", "enum", "minimum", "pattern", "minItems", "maxItems", "items", "required",
                                    "properties", "additionalProperties"}:
            yield f"{path}: this check does not know the word {word!r}"


def load(path):
    return json.loads(re.sub(r"(?m)^//.*$", "", path.read_text()))


def property_names(schema):
    """All keys that a schema speaks of, at any depth."""
    if isinstance(schema, list):
        return set().union(*map(property_names, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", ())) if isinstance(schema.get("properties"), dict) else set()
    return own.union(*map(property_names, schema.values()))


def vendors_amiss(root, schemas):
    vendors = re.findall(r'\.name = "(\w+)"', (root / "src/model/vendors.hpp").read_text())
    for name in ("machine-1.json", "status-1.json"):
        if schemas[name]["$defs"]["gpu"]["properties"]["vendor"]["enum"] != vendors:
            yield f"docs/schema/{name}: vendors are {', '.join(vendors)}"


def main():
    root = pathlib.Path(sys.argv[1])
    schemas = {path.name: load(path) for path in sorted((root / "docs/schema").glob("*.json"))}
    machine, status = schemas["machine-1.json"], schemas["status-1.json"]
    if len(sys.argv) > 2:
        work = [(load(pathlib.Path(sys.argv[2])), pathlib.Path(f)) for f in sys.argv[3:]]
    else:
        work = [(machine, f) for f in sorted((root / "machines").glob("*.json"))]
        work += [(status, f) for f in sorted((root / "tests/golden").glob("machine_*.json"))]
        if len(work) < 20:
            sys.exit(f"only {len(work)} files found to check")
    found = [f"{path}: {p}" for schema, path in work for p in problems(load(path), schema, schema)]
    page = (root / "docs/json.md").read_text()
    found += [
        f"docs/json.md does not describe `{name}`"
        for name in sorted(property_names(list(schemas.values())))
        if f"`{name}`" not in page
    ]
    found += vendors_amiss(root, schemas)
    print("\n".join(found) or f"{len(work)} files are as described")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
