// SPDX-License-Identifier: Apache-2.0
/* open.js - the source of what a person gave: a text, a picture, or a file of numbers. */
import { readCallFile } from './call_file.js';
import { readPicture, showPixels } from './pixels.js';
import { fileFault } from './safetensors.js';
import { openCall } from './source_call.js';
import { openTrace } from './source_trace.js';
import { openWeights } from './source_weights.js';
import { editsOf } from './trace_body.js';

const FILE_BYTES_MAX = 512 << 20;

/* Whether a File is a picture, by what its name or the system says. */
export function isPicture(file) {
    return file.type.startsWith('image/') || /\.(png|jpe?g|webp|gif|bmp|avif)$/i.test(file.name);
}

function readInline(place) {
    const text = atob(place.textContent.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++)
        bytes[i] = text.charCodeAt(i);
    return new File([bytes], place.dataset.name);
}

const inline = globalThis.document?.getElementById('weights') ?? null;

/* The weights that lie in the page itself, in base64, as attnd.show() of Python puts them there for a notebook or a
 * file: no daemon is there then, and none is asked. A File, or null on a page that a daemon sends. */
export const inlineFile = inline && readInline(inline);

const namesOf = (models) => models.map(({ name }) => `'${name}'`).join(', ');

function modelOf(models, name) {
    const model = models.find((one) => one.name === name);
    if (!model)
        throw fileFault(`Model '${name}' is not served; there are ${namesOf(models)}.`);
    return model;
}

/* What of an input are switches of the page: the heads that are off, and the edits that leave them out. */
const switchesOf = ({ off = [] }, model) => ({ off, edits: editsOf(off, model) });

/* What a trace says about a file's pixels: which part of the picture is which patch. */
async function openPixels(model, pixels, { state, signal, title, shown }) {
    try {
        return await openTrace({ model: model.name, pixels, ...switchesOf(state, model) }, signal,
            { shown, title, predicts: model.predictions });
    } catch (error) {
        if (shown)
            URL.revokeObjectURL(shown.url);
        throw error;
    }
}

async function openPicture({ state, file, models, signal }) {
    const model = modelOf(models, state.model);
    if (!model.pixels) {
        const others = models.filter((one) => one.trace && one.pixels);
        throw fileFault(`Model '${model.name}' takes no pictures; ${others.length > 0
            ? `choose one that does: ${namesOf(others)}.` : 'none of the served models does.'}`);
    }
    const { pixels, shown } = await readPicture(file, model.pixels);
    return openPixels(model, pixels, { state, signal, shown, title: file.name });
}

/* Whether numbers are pixels of a model. */
const arePixels = ({ shape }, { pixels }) =>
    pixels && shape.join() === [pixels.channels, pixels.height, pixels.width].join();

/* The layer whose rows have so many columns: the wanted one, or the first. */
function layerOf(model, wanted, columns) {
    const fits = (layer) => layer && (layer.d_query === columns || layer.d_query === null);
    const chosen = model.layers.find(({ index }) => index === wanted);
    return fits(chosen) ? chosen : wanted === null ? model.layers.find(fits) : null;
}

/* One array: rows of hidden states that enter the model, or the layer that the file names; pixels; else a query. */
async function openRows(read, { models, state, file, signal }) {
    const { rows, fields } = read;
    const model = modelOf(models, read.model ?? state.model);
    const query = { tensors: { query: rows }, fields };
    if (arePixels(rows, model))
        return openPixels(model, rows, { state, signal, title: file.name,
            shown: await showPixels(rows, model.pixels) });
    if (rows.shape.length === 3 || model.layers.length === 0)
        return openCall(query, null, 0, file.name);
    const columns = rows.shape.at(-1);
    if (model.trace && read.layer === null && model.layers[0].d_query === columns)
        return openTrace({ model: model.name, embeddings: rows, ...switchesOf(state, model) }, signal,
            { title: file.name, predicts: model.predictions });
    const layer = layerOf(model, read.layer, columns);
    if (!layer)
        throw fileFault(`'${file.name}' has rows of ${columns} columns; model '${model.name}' takes `
            + `${model.layers[read.layer ?? 0]?.d_query ?? 'others'}. The model 'sdpa' takes any as query and key.`);
    return openCall(query, model, layer.index, file.name);
}

async function openRead(read, given) {
    const { state, file, models, options: { numbers, ...options }, signal } = given;
    if (read.kind === 'weights')
        return openWeights(read, file.name, signal);
    if (read.kind === 'trace') {
        const model = modelOf(models, read.model ?? state.model);
        if (read.tensors.pixels && model.pixels)
            return openPixels(model, read.tensors.pixels, { state, signal, title: file.name,
                shown: await showPixels(read.tensors.pixels, model.pixels) });
        return openTrace({ model: model.name, ...read.tensors, ...switchesOf(state, model) }, signal,
            { title: file.name, predicts: model.predictions });
    }
    const fields = { ...read.fields, ...options };
    if (read.kind === 'rows')
        return openRows({ ...read, fields }, given);
    const model = read.model === null ? null : modelOf(models, read.model);
    return openCall({ ...read, fields }, model?.layers.length ? model : null, read.layer ?? 0, file.name);
}

/* What a person may choose where nothing opens. */
const openChoice = (read, numbers) => ({ ...(read?.kind === 'weights' || numbers === 'weights' ? {} : { causal: null }),
    ...(read === null || read.isGuess ? { numbers: numbers ?? 'query' } : {}) });

async function openNumbers(given) {
    const { file, options: { numbers } } = given;
    let read = null;
    try {
        read = await readCallFile(file, numbers);
        const source = await openRead(read, given);
        if (read.isGuess)
            source.options = { ...source.options, numbers: read.kind === 'weights' ? 'weights' : 'query' };
        return source;
    } catch (error) {
        throw Object.assign(error, { choice: openChoice(read, numbers) });
    }
}

/* Opens the source of a state's input, or of a File in its place. models are the descriptions of GET /v1/models,
 * options what a person chose of a file's numbers: those of a call, causal, scale, softcap, q_heads, kv_heads, and
 * of an array without a name whether its numbers are 'weights' or a 'query'. */
export async function openSource({ state, file = null, models, options = {}, signal }) {
    if (file === null) {
        const model = models.find(({ name }) => name === state.model);
        return openTrace({ ...state, ...switchesOf(state, model) }, signal, { predicts: model?.predictions });
    }
    if (file.size > FILE_BYTES_MAX)
        throw fileFault(`'${file.name}' has ${Math.round(file.size / 2 ** 20)} MB; at most `
            + `${FILE_BYTES_MAX / 2 ** 20} are read.`);
    const source = await (isPicture(file) ? openPicture : openNumbers)({ state, file, models, options, signal });
    if (signal?.aborted) {
        source.close();
        signal.throwIfAborted();
    }
    return source;
}
