"""Writes definitions.json, for test_cluster_schemas.c: the schemas of kinds whose projects publish no package of types.

    make.py FILE... >tests/deploy/schemas/definitions.json

FILE is a CustomResourceDefinition, in YAML. README.md says which. Of each schema only the fields are taken whose names
some manifest in deploy/ has, so a field that is new there needs this script again. A field that the schema does not
have is refused, which a cluster would drop. What the checker does not know is left out: patterns, lengths, defaults and
rules between fields.
"""

import json
import pathlib
import re
import sys

import yaml

KEPT = ("type", "enum", "required", "minimum", "maximum", "minItems", "maxItems", "anyOf", "allOf")

used = {"apiVersion", "kind", "metadata"}
for manifest in pathlib.Path(__file__).parents[3].glob("deploy/**/*.yaml"):
    used.update(re.findall(r"^ *(?:- )?([\w.$/-]+):", manifest.read_text(), re.MULTILINE))


def reduced(schema):
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    kept = {name: schema[name] for name in KEPT if name in schema}
    if "items" in schema:
        kept["items"] = reduced(schema["items"])
    if "properties" in schema:
        fields = schema["properties"]
        kept["properties"] = {name: reduced(fields[name]) for name in fields if name in used and name != "status"}
        kept["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = reduced(schema["additionalProperties"])
    return kept


kinds = {}
for path in sys.argv[1:]:
    spec = yaml.safe_load(pathlib.Path(path).read_text())["spec"]
    for version in spec["versions"]:
        schema = reduced(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        kinds[f'{spec["group"]}/{version["name"]}/{spec["names"]["kind"]}'] = schema
print(json.dumps({"kinds": kinds}, indent=1, sort_keys=True))
