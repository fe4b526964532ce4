// SPDX-License-Identifier: Apache-2.0
// compare.js - the server's tokenizers beside the reference implementation.
//
//     npm install @anush008/tokenizers                      in a folder of its own, JUDGE below
//     make build/cc/tests/tokenizers/encode_lines
//     node tests/tokenizers/compare.js JUDGE build/cc/tests/tokenizers/encode_lines [--lines N] [--seed N]
//         [--characters] [--no-time] [--ours FOLDER] FOLDER...
//
// Each FOLDER holds a tokenizer.json (or, two levels deep, folders that do). For each, N lines
// (100000 unless given) of lines.js are encoded by both; ids, offsets in bytes and the decoded texts
// must be equal. The first differences are printed. Then both encode the lines again in turns, on
// one core, and the best of three times is printed as MB/s. Exits 1 where anything differs.
// --characters encodes a line for each character of Unicode instead.
// --ours names another folder for the server, such as one with an older form of the same tokenizer, or a .gguf file.
'use strict';
process.env.TOKENIZERS_PARALLELISM = 'false';
const { spawnSync } = require('child_process');
const fs = require('fs');
const path = require('path');
const { lines, characters } = require('./lines.js');

const DIFFERENCES_SHOWN = 5;

function options(argv) {
    const found = { lines: 100000, seed: 1, folders: [], time: true };
    for (let i = 0; i < argv.length; i++) {
        if (argv[i] === '--lines') found.lines = Number(argv[++i]);
        else if (argv[i] === '--seed') found.seed = Number(argv[++i]);
        else if (argv[i] === '--characters') found.characters = true;
        else if (argv[i] === '--no-time') found.time = false;
        else if (argv[i] === '--ours') found.ours = argv[++i];
        else found.folders.push(argv[i]);
    }
    if (found.folders.length < 3) {
        console.error('usage: compare.js JUDGE ENCODE_LINES [--lines N] [--seed N] [--no-time] FOLDER...');
        process.exit(2);
    }
    found.judge = found.folders.shift();
    found.program = found.folders.shift();
    return found;
}

// Folders with a tokenizer.json, at most two levels below.
function findFolders(folder, depth = 2) {
    if (fs.existsSync(path.join(folder, 'tokenizer.json')))
        return [folder];
    if (depth === 0)
        return [];
    return fs.readdirSync(folder, { withFileTypes: true }).filter(entry => entry.isDirectory() || entry.isSymbolicLink())
        .flatMap(entry => findFolders(path.join(folder, entry.name), depth - 1));
}

function frames(texts) {
    return Buffer.concat(texts.flatMap(text => {
        const bytes = Buffer.from(text, 'utf8');
        const head = Buffer.alloc(4);
        head.writeUInt32LE(bytes.length);
        return [head, bytes];
    }));
}

function run(program, args, input) {
    const result = spawnSync(program, args, { input, maxBuffer: 4 * 2 ** 30 });
    if (result.status !== 0)
        throw new Error(`${program} ${args.join(' ')}: ${result.stderr}`);
    return result.stdout;
}

function readAnswers(bytes) {
    const answers = [];
    let at = 0;
    const number = () => { at += 4; return bytes.readInt32LE(at - 4); };
    while (at < bytes.length) {
        const count = number();
        const ids = [], offsets = [];
        for (let i = 0; i < count; i++) {
            ids.push(number());
            offsets.push(number(), number());
        }
        const size = number();
        at += size;
        answers.push({ refused: count < 0, ids, offsets, decoded: bytes.toString('utf8', at - size, at) });
    }
    return answers;
}

// The byte at which each character of a text begins.
function byteOffsets(text) {
    const offsets = [0];
    for (const character of text)
        offsets.push(offsets[offsets.length - 1] + Buffer.byteLength(character));
    return offsets;
}

async function referenceAnswers(tokenizer, texts) {
    const answers = [];
    for (let i = 0; i < texts.length; i += 1000) {
        const part = texts.slice(i, i + 1000);
        let encodings;
        try {
            encodings = await tokenizer.encodeBatch(part, { addSpecialTokens: true });
        } catch {
            encodings = [];
            for (const text of part)
                encodings.push(await tokenizer.encode(text, null, { addSpecialTokens: true }).catch(() => null));
        }
        for (let k = 0; k < part.length; k++) {
            const encoding = encodings[k];
            if (!encoding) {
                answers.push({ refused: true, ids: [], offsets: [], decoded: '' });
                continue;
            }
            const bytes = byteOffsets(part[k]);
            const ids = encoding.getIds();
            answers.push({ refused: false, ids, offsets: encoding.getOffsets().flat().map(c => bytes[c]),
                decoded: await tokenizer.decode(ids, true) });
        }
    }
    return answers;
}

const same = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);

function difference(ours, theirs) {
    if (ours.refused !== theirs.refused)
        return ours.refused ? `refused: ${ours.decoded}` : 'not refused';
    if (ours.refused)
        return null;
    if (!same(ours.ids, theirs.ids))
        return 'ids';
    if (!same(ours.offsets, theirs.offsets))
        return 'offsets';
    return ours.decoded === theirs.decoded ? null : 'decoded';
}

function show(text, what, ours, theirs) {
    console.log(`  ${what}: ${JSON.stringify(text)}`);
    const key = what === 'offsets' || what === 'decoded' ? what : 'ids';
    if (key === 'decoded') {
        console.log(`    ours   ${JSON.stringify(ours.decoded)}\n    theirs ${JSON.stringify(theirs.decoded)}`);
        return;
    }
    let at = 0;
    while (at < ours[key].length && ours[key][at] === theirs[key][at])
        at++;
    const cut = list => list.slice(Math.max(0, at - 4), at + 12).join(' ');
    console.log(`    at ${at}\n    ours   ${cut(ours[key])}\n    theirs ${cut(theirs[key])}`);
}

async function times(tokenizer, found, folder, texts, input) {
    let ours = Infinity, theirs = Infinity;
    for (let turn = 0; turn < 3; turn++) {
        ours = Math.min(ours, Number(run(found.program, [found.ours || folder, 'time'], input).toString()));
        const begin = process.hrtime.bigint();
        for (let i = 0; i < texts.length; i += 1000)
            await tokenizer.encodeBatch(texts.slice(i, i + 1000), { addSpecialTokens: true });
        theirs = Math.min(theirs, Number(process.hrtime.bigint() - begin) / 1e9);
    }
    return [ours, theirs];
}

async function compare(reference, found, folder, texts) {
    const input = frames(texts);
    const megabytes = (input.length - 4 * texts.length) / 1e6;
    const tokenizer = reference.Tokenizer.fromFile(path.join(folder, 'tokenizer.json'));
    const ours = readAnswers(run(found.program, [found.ours || folder], input));
    const theirs = await referenceAnswers(tokenizer, texts);
    const counts = {};
    texts.forEach((text, i) => {
        const what = difference(ours[i], theirs[i]);
        if (!what)
            return;
        const kind = what.split(':')[0];
        counts[kind] = (counts[kind] || 0) + 1;
        if (counts[kind] <= DIFFERENCES_SHOWN)
            show(text, what, ours[i], theirs[i]);
    });
    const differences = Object.entries(counts).map(([kind, count]) => `${count} ${kind}`).join(', ') || 'none';
    let speed = '';
    if (found.time) {
        const [us, them] = await times(tokenizer, found, folder, texts, input);
        speed = `  ours ${(megabytes / us).toFixed(1)} MB/s, theirs ${(megabytes / them).toFixed(1)} MB/s`;
    }
    console.log(`${folder}: ${texts.length} lines, differences: ${differences}${speed}`);
    return Object.keys(counts).length === 0;
}

async function main() {
    const found = options(process.argv.slice(2));
    const reference = require(path.resolve(found.judge, 'node_modules/@anush008/tokenizers'));
    const texts = found.characters ? characters() : lines(found.lines, found.seed);
    let equal = true;
    for (const folder of found.folders.flatMap(name => findFolders(name))) {
        try {
            equal = await compare(reference, found, folder, texts) && equal;
        } catch (error) {
            console.log(`${folder}: ${error.message.trim()}`);
            equal = false;
        }
    }
    process.exit(equal ? 0 : 1);
}

main();
