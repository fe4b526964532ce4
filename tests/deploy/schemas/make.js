// make.js - writes kubernetes.json: the types of the kinds in deploy/, for test_cluster_schemas.c.
//
//     npm install kubernetes-models@5.1.0 @kubernetes-models/prometheus-operator@6.0.0 \
//         @kubernetes-models/keda@2.0.0 @kubernetes-models/gateway-api@2.0.0
//     node tests/deploy/schemas/make.js NODE_MODULES >tests/deploy/schemas/kubernetes.json
//
// Those packages (MIT, github.com/tommy351/kubernetes-models-ts) have the projects' OpenAPI schemas as
// TypeScript. Of each type only the fields are taken whose names some manifest has, so a field that is
// new in deploy/ needs this script again, which takes it only where the project has it.
'use strict';
const fs = require('fs');
const path = require('path');

const KINDS = {
    'kubernetes-models': [
        'apps/v1/Deployment', 'apps/v1/StatefulSet', 'autoscaling/v2/HorizontalPodAutoscaler', 'batch/v1/Job',
        'networking.k8s.io/v1/NetworkPolicy', 'policy/v1/PodDisruptionBudget',
        'rbac.authorization.k8s.io/v1/Role', 'rbac.authorization.k8s.io/v1/RoleBinding',
        'v1/ConfigMap', 'v1/Service', 'v1/ServiceAccount',
    ],
    '@kubernetes-models/prometheus-operator': ['monitoring.coreos.com/v1/ServiceMonitor'],
    '@kubernetes-models/keda': ['keda.sh/v1alpha1/ScaledObject'],
    '@kubernetes-models/gateway-api': ['gateway.networking.k8s.io/v1/HTTPRoute'],
};

const modules = process.argv[2];
if (!modules) {
    console.error('usage: node make.js NODE_MODULES >kubernetes.json');
    process.exit(2);
}

// Every key of every manifest, wherever it stands; Envoy's file is none.
const used = new Set(['apiVersion', 'kind', 'metadata', 'data']);
(function collect(folder) {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
        const file = path.join(folder, entry.name);
        if (entry.isDirectory() && entry.name !== 'envoy')
            collect(file);
        else if (/\.yaml$/.test(file))
            for (const [, key] of fs.readFileSync(file, 'utf8').matchAll(/^ *(?:- )?([\w.$/-]+):/gm))
                used.add(key);
    }
})(path.join(__dirname, '../../../deploy'));

const types = {};

// A type expression of a .d.ts file, as JSON Schema.
function reader(text, imports) {
    const tokens = text.match(/"[^"]*"|[\w$]+|[{}[\]<>|?:;()]/g);
    let at = 0;
    const take = (token) => {
        if (tokens[at] !== token)
            throw new Error(`'${token}' expected, not '${tokens[at]}' in ${text.slice(0, 200)}`);
        at++;
    };
    function object() {
        const schema = { type: 'object', properties: {}, required: [], additionalProperties: false };
        take('{');
        while (tokens[at] !== '}') {
            if (tokens[at] === '[') {
                at += 5; // [key: string]:
                take(':');
                schema.additionalProperties = union();
            } else {
                const name = tokens[at++].replace(/"/g, '');
                const optional = tokens[at] === '?' && !!++at;
                take(':');
                const value = used.has(name) || !optional ? union() : skip();
                if (value)
                    schema.properties[name] = value;
                if (!optional)
                    schema.required.push(name);
            }
            take(';');
        }
        take('}');
        if (!schema.required.length)
            delete schema.required;
        return schema;
    }
    // Past a type that nobody asks for.
    function skip() {
        for (let depth = 0; depth > 0 || tokens[at] !== ';'; at++)
            depth += { '{': 1, '}': -1 }[tokens[at]] || 0;
        return null;
    }
    function one() {
        const token = tokens[at];
        if (token === '{')
            return object();
        at++;
        if (token[0] === '"')
            return { enum: [token.slice(1, -1)] };
        if (token === 'Array') {
            take('<');
            const items = union();
            take('>');
            return { type: 'array', items };
        }
        if (['string', 'number', 'boolean', 'null'].includes(token))
            return { type: token };
        if (token === 'any' || token === 'unknown')
            return {};
        if (!imports[token])
            throw new Error(`nothing is imported as ${token}`);
        return { $ref: '#/types/' + load(imports[token]) };
    }
    function union() {
        const parts = [one()];
        while (tokens[at] === '|' && ++at)
            parts.push(one());
        if (parts.length === 1)
            return parts[0];
        if (parts.every((part) => part.enum))
            return { enum: parts.flatMap((part) => part.enum) };
        return { anyOf: parts };
    }
    return { union };
}

// Reads the interface of a file into types; returns its name there.
function load(file) {
    const text = fs.readFileSync(file, 'utf8').replace(/\/\*[^]*?\*\//g, '');
    const [, local, name] = text.match(/export type \{ (\w+) as I(\w+)/);
    if (types[name])
        return name;
    types[name] = {};
    const imports = {};
    for (const [, names, from] of text.matchAll(/import \{ ([^}]*) \} from "([^"]*)"/g))
        for (const imported of names.split(', '))
            imports[imported] = from.startsWith('.')
                ? path.join(path.dirname(file), from.replace(/(\.js)?$/, '.d.ts'))
                : path.join(modules, from + '.d.ts');
    const alias = text.match(new RegExp(`export type ${local} = ([^;]*);`));
    if (alias) {
        types[name] = reader(alias[1] + ';', imports).union();
        return name;
    }
    const body = text.slice(text.indexOf(`export interface ${local} `));
    const [, parents] = body.match(/^export interface \w+ (?:extends ([^{]*))?\{/);
    const schema = reader(body.slice(body.indexOf('{')), imports).union();
    for (const parent of (parents || '').split(',').map((word) => word.trim()).filter(Boolean)) {
        if (parent === 'TypeMeta') // apiVersion and kind, which the child has too
            continue;
        const inherited = types[load(imports[parent])];
        Object.assign(schema.properties, inherited.properties);
        schema.required = [...(schema.required || []), ...(inherited.required || [])];
    }
    types[name] = schema;
    return name;
}

const kinds = {};
for (const [module, files] of Object.entries(KINDS))
    for (const kind of files)
        kinds[kind] = { $ref: '#/types/' + load(path.join(modules, module, kind + '.d.ts')) };

// Types that no kind names any more: parents, which are part of their children.
const wanted = new Set();
(function mark(node) {
    for (const [key, value] of Object.entries(node))
        if (key === '$ref') {
            const name = value.replace('#/types/', '');
            if (!wanted.has(name)) {
                wanted.add(name);
                mark(types[name]);
            }
        } else if (value && typeof value === 'object') {
            mark(value);
        }
})(kinds);

const lines = (table) =>
    Object.keys(table).sort().map((name) => `  ${JSON.stringify(name)}: ${JSON.stringify(table[name])}`);
const kept = Object.fromEntries([...wanted].map((name) => [name, types[name]]));
console.log(`{\n "kinds": {\n${lines(kinds).join(',\n')}\n },\n "types": {\n${lines(kept).join(',\n')}\n }\n}`);
