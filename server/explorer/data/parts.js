// SPDX-License-Identifier: Apache-2.0
/* parts.js - a prompt in parts, as ranges of its tokens: documents between blank lines, else sentences, else lines,
 * clauses or words, whichever gives more than one. */

const PARTS_MAX = 64;
const WORDS_MAX = 24;                            /* of more a part is several words */

/* What ends a part, each with the white space before the next one left to that one. */
const ENDS = [
    /\n[^\S\n]*(?=\n)/g,
    /(?:[.!?…]+["'”’»)\]]*(?=\s)|[。！？]+[」』”’）]*)/g,
    /\S[^\S\n]*(?=\n)/g,
    /(?:[,;:–—](?=\s)|[，；：、])/g,
    /\S(?=\s)/g,
];

/* An end of a sentence that is none: a title, an initial, a number of a list. */
const NO_END = /(?:^|\s)(?:\p{Lu}|\d{1,3}|Mr|Mrs|Ms|Dr|Prof|St|vs|etc|e\.g|i\.e|No|Fig|Eq)\.$/u;

/* The places in a text where an end lies. */
function endsOf(text, pattern) {
    const isSentence = pattern === ENDS[1];
    return [...text.matchAll(pattern)].map((found) => found.index + found[0].length)
        .filter((end) => end < text.length && !(isSentence && NO_END.test(text.slice(Math.max(0, end - 8), end))));
}

/* The byte that each character begins at, in UTF-8. */
function bytesOf(text) {
    const places = new Map();
    let bytes = 0;
    let at = 0;
    for (const character of text) {
        places.set(at, bytes);
        const code = character.codePointAt(0);
        bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        at += character.length;
    }
    return places.set(at, bytes);
}

/* Runs of tokens of one text: [{text, places: [{at, start}]}], at the number of a token, start its byte. A template
 * stands between texts, and the places in each text begin anew. */
function runsOf(tokens, texts) {
    const runs = [];
    let last = Infinity;
    tokens.forEach(({ start }, at) => {
        if (start === null)
            return;
        if (start <= last && (last === Infinity || at === 0 || tokens[at - 1].start === null))
            runs.push({ text: texts[runs.length] ?? '', places: [] });
        last = start;
        runs.at(-1).places.push({ at, start });
    });
    return runs;
}

/* The same where ids came, by the labels. */
function runOfLabels(tokens) {
    let text = '';
    const places = [];
    let bytes = 0;
    tokens.forEach(({ label, special, isApart }, at) => {
        if (special)
            return;
        const written = (isApart && text !== '' ? ' ' : '')
            + label.replace(/␣/g, ' ').replace(/⏎/g, '\n').replace(/⇥/g, '\t');
        places.push({ at, start: bytes });
        text += written;
        bytes += new TextEncoder().encode(written).length;
    });
    return places.length > 0 ? [{ text, places }] : [];
}

/* Ranges of the tokens of a run, cut where one begins at an end or behind it. */
function cut({ text, places }, pattern) {
    const bytes = bytesOf(text);
    const ends = endsOf(text, pattern).map((end) => bytes.get(end));
    const ranges = [];
    let next = 0;
    for (const { at, start } of places) {
        const isNew = ranges.length === 0 || start >= ends[next] || at !== ranges.at(-1)[1];
        while (start >= ends[next])
            next++;
        if (isNew)
            ranges.push([at, at + 1]);
        else
            ranges.at(-1)[1] = at + 1;
    }
    return ranges;
}

/* At most `most` ranges: neighbours together. */
function fewer(ranges, most) {
    const each = Math.ceil(ranges.length / most);
    return Array.from({ length: Math.ceil(ranges.length / each) }, (_, i) =>
        [ranges[i * each][0], ranges[Math.min(ranges.length, (i + 1) * each) - 1][1]]);
}

/* The parts of a prompt of tokens, ranges [first, end); texts are those that it was made of, in their order. */
export function partsOf(tokens, texts) {
    const given = runsOf(tokens, texts.filter((text) => text !== null && text !== undefined));
    const runs = given.length > 0 ? given : runOfLabels(tokens);
    if (runs.length === 0)
        return [];
    for (const pattern of ENDS) {
        const ranges = runs.flatMap((run) => cut(run, pattern));
        if (ranges.length > 1)
            return fewer(ranges, pattern === ENDS.at(-1) ? WORDS_MAX : PARTS_MAX);
    }
    return runs.map(({ places }) => [places[0].at, places.at(-1).at + 1]);
}
