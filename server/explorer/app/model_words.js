// SPDX-License-Identifier: Apache-2.0
/* model_words.js - what a served model takes and how large it is, in words, from its description. */
import { plural } from '../data/words.js';

const THOUSANDS = ['', ' thousand', ' million', ' billion', ' trillion'];

/* "61 thousand", "7.2 billion". */
export function countWords(count) {
    let power = 0;
    let rest = count;
    while (rest >= 999.5 && power < THOUSANDS.length - 1) {
        rest /= 1000;
        power++;
    }
    const digits = rest < 10 && power > 0 ? rest.toFixed(1).replace(/\.0$/, '') : String(Math.round(rest));
    return digits + THOUSANDS[power];
}

/* Whether the daemon has loaded the model; else its reason says why not. */
export function isServed(model) {
    return model.state === 'READY';
}

/* Whether a trace of the model takes this input: text, tokens, pixels, features, sound or decoder. */
export function takes(model, input) {
    if (!model.trace)
        return false;
    if (Array.isArray(model.inputs))
        return model.inputs.includes(input);
    if (input === 'decoder')
        return hasCross(model);
    return input === 'text' ? model.tokenizer !== null : input === 'tokens';
}

function hasCross(model) {
    return model.layers.some((layer) => layer.kind === 'cross');
}

/* A second text is offered to models that look both ways; whether its tokenizer's template takes one, the daemon
 * says. */
export function mayTakePair(model) {
    return takes(model, 'text') && !model.causal && !hasCross(model);
}

function headsOf(model) {
    const counts = [...new Set(model.layers.map((layer) => layer.q_heads))];
    return counts.length === 1 ? plural(counts[0], 'head') : `${Math.min(...counts)} to ${Math.max(...counts)} heads`;
}

/* The numbers in a model's files. */
export function parameterCount(model) {
    return model.total_parameter_count ?? model.parameter_count;
}

/* "5 layers of 8 heads, 260 thousand parameters, 61 thousand of attention"; '' where nothing is known. */
export function sizeWords(model) {
    if (model.layers.length === 0 && !isServed(model))
        return '';
    if (model.layers.length === 0)
        return 'no parameters: query, key and value as they are';
    const count = parameterCount(model);
    const part = count === model.parameter_count ? '' : `, ${countWords(model.parameter_count)} of attention`;
    return `${plural(model.layers.length, 'layer')} of ${headsOf(model)}, ${countWords(count)} parameters${part}`;
}

/* What to give the model, as a whole sentence. */
export function inputWords(model) {
    if (!isServed(model) && !model.trace)
        return `It is not available: ${model.reason || 'the daemon does not say why'}.`;
    if (!model.trace) {
        const columns = model.layers[0]?.d_query;
        const why = model.trace_reason ? `No whole pass: ${model.trace_reason}. ` : '';
        return `${why}Drop a file with ${columns ? `rows of ${columns} numbers` : 'query, key and value'}.`;
    }
    const names = [];
    if (takes(model, 'text'))
        names.push('text');
    if (takes(model, 'pixels'))
        names.push('a picture');
    if (takes(model, 'features'))
        names.push('features from a file');
    if (names.length === 0 && takes(model, 'sound'))
        return 'Takes sound, by POST /v1/trace; here rows from a file.';
    if (names.length === 0)
        return `Takes ids of tokens: ${model.tokenizer_reason || 'it has no tokenizer'}.`;
    return `Takes ${names.join(' or ')}.`;
}

/* The model of a first visit: the smallest that takes text, else the smallest that can be traced; null: none. */
export function firstModel(models) {
    const bySize = models.filter((model) => model.trace && model.state === 'READY')
        .sort((a, b) => parameterCount(a) - parameterCount(b));
    return bySize.find((model) => takes(model, 'text')) ?? bySize[0] ?? null;
}
