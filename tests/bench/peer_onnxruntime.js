// SPDX-License-Identifier: Apache-2.0
// peer_onnxruntime.js - attention by onnxruntime's MultiHeadAttention, as a child of bench_attention
// (peer_main.h has the words). The model is one node, written here in ONNX's protobuf.
'use strict';
const ort = require('onnxruntime-node');
const readline = require('readline');

// ------------------------------------------------------------------------------- protobuf --

function varint(n) {
    const bytes = [];
    for (; n > 127; n = Math.floor(n / 128))
        bytes.push((n % 128) | 128);
    return [...bytes, n];
}

const number = (field, n) => [...varint(field * 8), ...varint(n)];
const bytes = (field, content) => [...varint(field * 8 + 2), ...varint(content.length), ...content];
const text = (field, s) => bytes(field, [...Buffer.from(s)]);

const attribute = (name, n) => bytes(5, [...text(1, name), ...number(3, n), ...number(20, 2)]);

function tensorInfo(field, name, shape) {
    const dims = shape.flatMap((n) => bytes(1, number(1, n)));
    const tensorType = bytes(1, [...number(1, 1), ...bytes(2, dims)]);
    return bytes(field, [...text(1, name), ...bytes(2, tensorType)]);
}

function model(s) {
    const width = s.heads * s.dim;
    const node = [
        ...['query', 'key', 'value'].flatMap((name) => text(1, name)), ...text(2, 'context'),
        ...text(4, 'MultiHeadAttention'), ...attribute('num_heads', s.heads),
        ...attribute('unidirectional', s.causal), ...text(7, 'com.microsoft'),
    ];
    const graph = [
        ...bytes(1, node), ...text(2, 'attention'),
        ...tensorInfo(11, 'query', [s.batch, s.qLen, width]),
        ...tensorInfo(11, 'key', [s.batch, s.kvLen, width]),
        ...tensorInfo(11, 'value', [s.batch, s.kvLen, width]),
        ...tensorInfo(12, 'context', [s.batch, s.qLen, width]),
    ];
    return Uint8Array.from([
        ...number(1, 8), ...bytes(7, graph), ...bytes(8, [...text(1, ''), ...number(2, 17)]),
        ...bytes(8, [...text(1, 'com.microsoft'), ...number(2, 1)]),
    ]);
}

// ---------------------------------------------------------------------------------- inputs --

function numberAt(i, input) {
    let hash = (Math.imul(i, 2654435761) + input) >>> 0;
    hash ^= hash >>> 16;
    hash = Math.imul(hash, 0x85ebca6b);
    hash ^= hash >>> 13;
    return ((hash | 0) / 2147483648) * (input === 1 ? 3 : 1.5);
}

// Number i belongs where [batch, heads, length, dim] has it; here the heads of a row lie together.
function tensor(s, length, input) {
    const width = s.heads * s.dim;
    const data = new Float32Array(s.batch * length * width);
    let i = 0;
    for (let b = 0; b < s.batch; b++)
        for (let h = 0; h < s.heads; h++)
            for (let r = 0; r < length; r++)
                for (let d = 0; d < s.dim; d++)
                    data[(b * length + r) * width + h * s.dim + d] = numberAt(i++, input);
    return new ort.Tensor('float32', data, [s.batch, length, width]);
}

// ------------------------------------------------------------------------------------ talk --

let session = null;
let feeds = null;
let shape = null;

async function setUp(words) {
    const [batch, heads, kvHeads, qLen, kvLen, dim, causal, threads] = words.map(Number);
    if (heads !== kvHeads)
        return 'no grouped heads';
    if (causal && qLen !== kvLen)
        return 'no causal rows that do not begin with the keys';
    shape = { batch, heads, qLen, kvLen, dim, causal, threads };
    session = await ort.InferenceSession.create(model(shape), {
        intraOpNumThreads: threads, interOpNumThreads: 1, executionProviders: ['cpu'],
        logSeverityLevel: 3,
    });
    feeds = { query: tensor(shape, qLen, 1), key: tensor(shape, kvLen, 2),
              value: tensor(shape, kvLen, 3) };
    const { context } = await session.run(feeds);
    let sum = 0, absolute = 0;
    for (const x of context.data) {
        sum += x;
        absolute += Math.abs(x);
    }
    return `ok ${sum} ${absolute}`;
}

function now() {
    if (shape.threads > 1)
        return Number(process.hrtime.bigint()) / 1e9;
    const usage = process.cpuUsage();
    return (usage.user + usage.system) / 1e6;
}

async function time(count) {
    const seconds = [];
    for (let i = 0; i < count; i++) {
        const begin = now();
        await session.run(feeds);
        seconds.push(now() - begin);
    }
    return 't ' + seconds.map((s) => s.toFixed(9)).join(' ');
}

async function main() {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const words = line.trim().split(/\s+/);
        if (words[0] === 'shape')
            console.log(await setUp(words.slice(1)).catch((error) => `no ${String(error.message).split('\n')[0]}`));
        else if (words[0] === 'run')
            console.log(await time(Number(words[1])));
    }
}

main();
