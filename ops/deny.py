"""Checks the licenses and sources of all dependencies against deny.toml, without cargo-deny.

Reads `cargo metadata` on standard input. An expression passes when one of its alternatives
consists of allowed licenses only (SPDX specification, annex D).
"""

import json
import re
import sys
import tomllib


def main(path):
    with open(path, "rb") as file:
        deny = tomllib.load(file)
    allowed = set(deny["licenses"]["allow"])
    registries = set(deny["sources"]["allow-registry"])
    bad = 0
    packages = json.load(sys.stdin)["packages"]
    for package in packages:
        name = f"{package['name']} {package['version']}"
        expression = package["license"]
        if not expression or not passes(expression, allowed):
            bad += complain(f"{name}: license {expression!r} is not allowed")
        source = package["source"]
        if source and source.removeprefix("registry+") not in registries:
            bad += complain(f"{name}: source {source} is not allowed")
    print(f"deny: {len(packages)} packages, {bad} refused")
    return 1 if bad else 0


def complain(message):
    print(f"error: {message}", file=sys.stderr)
    return 1


def passes(expression, allowed):
    tokens = re.findall(r"\(|\)|[^\s()/]+|/", expression)
    value, rest = alternatives(tokens, allowed)
    return value and not rest


def alternatives(tokens, allowed):
    value, tokens = conjunction(tokens, allowed)
    while tokens and tokens[0] in ("OR", "/"):
        right, tokens = conjunction(tokens[1:], allowed)
        value = value or right
    return value, tokens


def conjunction(tokens, allowed):
    value, tokens = license_or_group(tokens, allowed)
    while tokens and tokens[0] == "AND":
        right, tokens = license_or_group(tokens[1:], allowed)
        value = value and right
    return value, tokens


def license_or_group(tokens, allowed):
    if not tokens:
        return False, tokens
    if tokens[0] == "(":
        value, tokens = alternatives(tokens[1:], allowed)
        return value, tokens[1:]
    name, tokens = tokens[0], tokens[1:]
    if tokens and tokens[0] == "WITH":
        name, tokens = f"{name} WITH {tokens[1]}", tokens[2:]
    return name in allowed, tokens


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
