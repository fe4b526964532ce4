// SPDX-License-Identifier: Apache-2.0
/* tokens.js - tokens as a person reads them.
 *
 * A token is {label, id, special, start, end, sequence, before, reading, isApart}: sequence 1 is of the second text of
 * a pair; isApart where it is no part of a text, but a number or a place. Its label is the part of the text that it
 * stands for; where no text is known, what its entry in the vocabulary stands for. In running text it is `reading`, as
 * it stands there, after `before`, which is of no token. */

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const SIGNS = { ' ': '␣', '\n': '⏎', '\t': '⇥', '\r': '␍' };

const codeOf = (character) =>
    `‹U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`;

const UNSEEN = /[\p{Cc}\p{Zs}\p{Zl}\p{Zp}\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/gu;

/* White space and what has no picture gets a sign: nobody could see it, or it could turn the text beside it. */
function visible(text) {
    const signed = text.replace(/[ \n\t\r]/g, (character) => SIGNS[character]).replace(UNSEEN, codeOf);
    return /[^\p{Cf}\p{Mn}\ufe0f]/u.test(signed) ? signed : signed.replace(/./gu, codeOf);
}

/* The text of bytes; null where they are none. */
function textOf(bytes) {
    try {
        return utf8.decode(bytes);
    } catch {
        return null;
    }
}

/* The characters that byte-level vocabularies write bytes as (GPT-2's bytes_to_unicode()): those that can be seen stand
 * for themselves, the others follow from U+0100 on. */
const BYTE_OF = new Map();
for (let byte = 0, next = 256; byte < 256; byte++) {
    const isSeen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    BYTE_OF.set(String.fromCharCode(isSeen ? byte : next++), byte);
}

/* Byte-level vocabularies begin a word with their sign for a blank; no other has both that and only such characters. */
function isByteLevel(tokens) {
    const texts = tokens.filter(({ special }) => !special).map(({ text }) => text ?? '');
    return texts.some((text) => /[ĠĊ]/.test(text))
        && texts.every((text) => [...text].every((character) => BYTE_OF.has(character)));
}

/* How many bytes a character has that begins with this one; 1 where none does. */
function lengthOf(first) {
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
}

/* Whole characters as they are, and the bytes that are only a part of one as ⟨E6⟩⟨97⟩. */
function bytesLabel(bytes) {
    let label = '';
    for (let at = 0; at < bytes.length;) {
        const length = lengthOf(bytes[at]);
        const whole = textOf(bytes.subarray(at, at + length));
        label += whole === null ? `⟨${bytes[at].toString(16).toUpperCase().padStart(2, '0')}⟩` : visible(whole);
        at += whole === null ? 1 : length;
    }
    return label;
}

/* The bytes that an entry stands for: in a vocabulary of bytes, or "<0xE6>" in another one; null: it is text. */
function bytesOfEntry(text, byteLevel) {
    const one = /^<0x([0-9A-Fa-f]{2})>$/.exec(text);
    if (one)
        return Uint8Array.of(parseInt(one[1], 16));
    return byteLevel ? Uint8Array.from([...text], (character) => BYTE_OF.get(character)) : null;
}

/* What an entry of the vocabulary stands for. */
function labelOfEntry(text, byteLevel) {
    const bytes = bytesOfEntry(text, byteLevel);
    if (bytes === null)
        return visible(text.replace(/▁/g, ' '));
    const whole = textOf(bytes);
    return whole === null || !byteLevel ? bytesLabel(bytes) : visible(whole);
}

/* What a token of an answer adds to the end of a text; null where that is no text, as of a part of a character. kind is
 * that of the model's tokenizer. */
export function addedText({ text = null, special = false }, tokens, kind) {
    if (text === null || special)
        return null;
    if (kind === 'WordPiece')
        return text.startsWith('##') ? text.slice(2) : ` ${text}`;
    const bytes = bytesOfEntry(text, isByteLevel(tokens));
    return bytes === null ? text.replace(/▁/g, ' ') : textOf(bytes);
}

const isOfBytes = (text) => [...text ?? ''].every((character) => BYTE_OF.has(character));

/* Whether two tokens stand for parts of one character: their places in the text overlap. */
const sharesPlace = (a, b) => Boolean(a && b) && a.end > a.start && b.end > b.start && a.start < b.end
    && b.start < a.end && (a.sequence ?? 0) === (b.sequence ?? 0);

/* The same as a part of running text: blanks and ends of lines stay. */
const asItStands = (text) => text.replace(UNSEEN, (character) => (/[\p{Zs}\n\t]/u.test(character) ? character
    : SIGNS[character] ?? codeOf(character)));

/* {before, reading} of a token's part of a text: a blank before a word is of no colour. An end of a line is to be seen,
 * for it may be looked at. */
function readingOf(text) {
    const [, blank, rest] = /^([\p{Zs}\t]*)([^]*)$/u.exec(asItStands(text));
    return rest === '' ? { before: '', reading: blank } : { before: blank, reading: rest.replace(/\n/g, '⏎\n') };
}

const PIECE = '·';                               /* what follows of a character that is several tokens */
const PIECES_MAX = 16;

/* What an entry of the vocabulary stands for, in running text. */
function entryReading({ text, id }, byteLevel) {
    const bytes = bytesOfEntry(text ?? '', byteLevel);
    return bytes === null ? (text ?? String(id)).replace(/▁/g, ' ') : textOf(bytes) ?? bytesLabel(bytes);
}

/* The text from token i on up to where it is whole, and how many tokens that is; null where it never is. */
function wholeFrom(tokens, i, bytes) {
    const { start, sequence = 0 } = tokens[i];
    for (let j = i; j < Math.min(tokens.length, i + PIECES_MAX) && (tokens[j].sequence ?? 0) === sequence; j++) {
        const whole = textOf(bytes.subarray(start, tokens[j].end));
        if (whole !== null)
            return { whole, count: j + 1 - i };
    }
    return null;
}

/* Whether the id is all that is known: a number, not an entry of a vocabulary. */
const isNumber = ({ text }) => (text ?? null) === null;

/* {before, reading} of each token of an answer. Numbers stand apart: 3 and 17 are not 317. */
function readings(tokens, encoded, byteLevel) {
    const ends = encoded.map(() => 0);           /* where the last token of each text ends */
    const all = [];
    while (all.length < tokens.length) {
        const token = tokens[all.length];
        const { start = null, end, sequence = 0, special } = token;
        const bytes = encoded[sequence];
        const isOfText = start !== null && end > start && bytes;
        const isOfNext = token.text === '▁' && isOfText && !/^\s/.test(textOf(bytes.subarray(start, end)) ?? ' ');
        if (isOfNext || (isOfText && start < ends[sequence])) {  /* a piece may say that it is all of its character */
            all.push({ before: '', reading: PIECE });
            continue;
        }
        const found = isOfText ? wholeFrom(tokens, all.length, bytes) : null;
        const { before, reading } = found ? readingOf(found.whole) : special || isOfText
            ? { before: '', reading: null } : readingOf(entryReading(token, byteLevel));
        const gap = isOfText && start > ends[sequence] ? textOf(bytes.subarray(ends[sequence], start)) ?? ''
            : isNumber(token) && all.length > 0 ? ' ' : '';
        all.push({ before: asItStands(gap) + before, reading });
        for (let piece = 1; piece < (found?.count ?? 1); piece++)
            all.push({ before: '', reading: PIECE });
        if (isOfText)
            ends[sequence] = Math.max(ends[sequence], tokens[all.length - 1].end);
    }
    return all;
}

/* The tokens of an answer. texts has the texts by sequence (text, pair), or nothing where ids came. A piece of a
 * character is labelled by its bytes: the character itself would stand there several times. */
export function readTokens(tokens, texts) {
    const encoded = texts.map((text) => new TextEncoder().encode(text ?? ''));
    const byteLevel = isByteLevel(tokens);
    const read = readings(tokens, encoded, byteLevel);
    return tokens.map((token, i) => {
        const { id, text, special = false, start = null, end = null, sequence = 0 } = token;
        const isPiece = sharesPlace(token, tokens[i - 1]) || sharesPlace(token, tokens[i + 1]);
        const bytes = start === null || isPiece ? null : encoded[sequence]?.subarray(start, end);
        const whole = bytes?.length ? textOf(bytes) : null;
        const entry = text ?? String(id);
        const label = whole !== null ? visible(whole) : special ? visible(entry)
            : labelOfEntry(entry, byteLevel || (isPiece && /[^\x00-\x7f]/.test(entry) && isOfBytes(entry)));
        return { label, id, special, start, end, sequence, before: read[i].before, reading: read[i].reading || label,
            isApart: isNumber(token) };
    });
}

/* A token of something without an id and a place in a text. */
export function placeToken(label, special = false) {
    return { label, id: null, special, start: null, end: null, sequence: 0, before: ' ', reading: label,
        isApart: true };
}

/* Tokens of things without a text: "row 0", "row 1" and so on. */
export function countTokens(count, word) {
    return Array.from({ length: count }, (_, i) => placeToken(`${word} ${i}`));
}

const CLASS_LABELS = ['[CLS]', '[DIST]'];        /* DeiT has a token for its distillation, too */

/* Tokens of a picture {patchRows, patchColumns, first}: those before its patches, then "patch 0,0" and so on. */
export function patchTokens({ patchRows, patchColumns, first }) {
    const before = Array.from({ length: first }, (_, i) => placeToken(CLASS_LABELS[i] ?? `[${i}]`, true));
    const patches = Array.from({ length: patchRows * patchColumns },
        (_, i) => placeToken(`patch ${Math.floor(i / patchColumns)},${i % patchColumns}`));
    return [...before, ...patches];
}
