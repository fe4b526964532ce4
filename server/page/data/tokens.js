/* tokens.js - tokens as a person reads them. */

const decoder = new TextDecoder();

/* White space that nobody could see gets a sign. */
function visible(text) {
    return text.replace(/ /g, '␣').replace(/\n/g, '⏎').replace(/\t/g, '⇥');
}

/* The tokens of an answer as {label, id, special, start, end}. texts has the texts by sequence (text, pair), or
 * nothing where ids came: then the label is the vocabulary's own. */
export function readTokens(tokens, texts) {
    const bytes = texts.map((text) => new TextEncoder().encode(text ?? ''));
    return tokens.map(({ id, text, special = false, start = null, end = null, sequence = 0 }) => {
        const source = start === null ? null : bytes[sequence]?.subarray(start, end);
        const whole = source?.length ? decoder.decode(source) : null;
        const label = whole !== null && !whole.includes('�') ? visible(whole) : visible(text ?? String(id));
        return { label, id, special, start, end };
    });
}

/* Tokens of things without a text: "row 0", "row 1" and so on. */
export function countTokens(count, word) {
    return Array.from({ length: count }, (_, i) => ({
        label: `${word} ${i}`, id: null, special: false, start: null, end: null,
    }));
}
