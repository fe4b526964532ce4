/* tokens.js - tokens as a person reads them.
 *
 * A token is {label, id, special, start, end, sequence}: sequence 1 is of the second text of a pair. Its label is the
 * part of the text that it stands for; where no text is known, what its entry in the vocabulary stands for. */

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const SIGNS = { ' ': '␣', '\n': '⏎', '\t': '⇥', '\r': '␍' };

const codeOf = (character) =>
    `‹U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`;

/* White space and what has no picture gets a sign: nobody could see it, or it could turn the text beside it. */
function visible(text) {
    const signed = text.replace(/[ \n\t\r]/g, (character) => SIGNS[character])
        .replace(/[\p{Cc}\p{Zs}\p{Zl}\p{Zp}\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/gu, codeOf);
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

function bytesLabel(bytes) {
    return [...bytes].map((byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`).join('');
}

const bytesOf = (text) => Uint8Array.from([...text], (character) => BYTE_OF.get(character));

/* What an entry of the vocabulary stands for. */
function labelOfEntry(text, byteLevel) {
    if (!byteLevel)
        return visible(text.replace(/▁/g, ' '));
    const whole = textOf(bytesOf(text));
    return whole === null ? bytesLabel(bytesOf(text)) : visible(whole);
}

/* What a token of an answer adds to the end of a text; null where that is no text, as of a part of a character. kind is
 * that of the model's tokenizer. */
export function addedText({ text = null, special = false }, tokens, kind) {
    if (text === null || special || /^<0x[0-9A-F]{2}>$/.test(text))
        return null;
    if (kind === 'WordPiece')
        return text.startsWith('##') ? text.slice(2) : ` ${text}`;
    return isByteLevel(tokens) ? textOf(bytesOf(text)) : text.replace(/▁/g, ' ');
}

/* The tokens of an answer. texts has the texts by sequence (text, pair), or nothing where ids came. */
export function readTokens(tokens, texts) {
    const encoded = texts.map((text) => new TextEncoder().encode(text ?? ''));
    const byteLevel = isByteLevel(tokens);
    return tokens.map(({ id, text, special = false, start = null, end = null, sequence = 0 }) => {
        const bytes = start === null ? null : encoded[sequence]?.subarray(start, end);
        const whole = bytes?.length ? textOf(bytes) : null;
        const entry = text ?? String(id);
        const label = whole !== null ? visible(whole)
            : special ? visible(entry) : labelOfEntry(entry, byteLevel);
        return { label, id, special, start, end, sequence };
    });
}

/* A token of something without an id and a place in a text. */
export function placeToken(label, special = false) {
    return { label, id: null, special, start: null, end: null, sequence: 0 };
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
