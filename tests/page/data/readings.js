// SPDX-License-Identifier: Apache-2.0
/* readings.js - tokens as running text: what they stand for, as it stands in the text, whatever the tokens are. */
const { readTokens } = await import(at('tokens.js'));
const bytes = (text) => new TextEncoder().encode(text).length;

/* Tokens of parts of a text, [{text, bytes}], one behind the other, after [CLS]. */
const tokensOf = (parts) => {
    let end = 0;
    return [{ id: 1, text: '[CLS]', special: true }, ...parts.map(({ text, skip = 0, size = bytes(text) }, id) => {
        const start = end + skip;
        end = start + size;
        return { id: id + 2, text, start, end };
    })];
};
const read = (tokens, ...texts) => readTokens(tokens, texts);
const said = (tokens) => tokens.map(({ before, reading }) => before + reading).join('');
const parts = (tokens) => tokens.map(({ before, reading }) => [before, reading]);

const words = read(tokensOf([{ text: '▁Once', size: 4 }, { text: '▁upon', size: 5 }, { text: '.' }]), 'Once upon.');
same('blanks before words have no colour', parts(words),
    [['', '[CLS]'], ['', 'Once'], [' ', 'upon'], ['', '.']]);
same('blanks that no token has',
    said(read(tokensOf([{ text: 'the' }, { text: 'cat', skip: 3 }, { text: '##s', size: 1 }]), 'the \n cats')),
    '[CLS]the \n cats');
same('blanks and ends of lines that are tokens',
    parts(read(tokensOf([{ text: 'a' }, { text: '\n' }, { text: ' ' }, { text: '\n\nb' }]), 'a\n \n\nb')),
    [['', '[CLS]'], ['', 'a'], ['', '⏎\n'], ['', ' '], ['', '⏎\n⏎\nb']]);

const cat = { id: 9, text: '<0xF0>', start: 0, end: 1 };
same('a character of several tokens, each with its byte', parts(readTokens([cat, ...[1, 2, 3].map((start) =>
    ({ ...cat, start, end: start + 1 })), { id: 3, text: 'a', start: 4, end: 5 }], ['🐈a'])),
    [['', '🐈'], ['', '·'], ['', '·'], ['', '·'], ['', 'a']]);
same('and each with the whole character',
    parts(readTokens([cat, cat, cat].map((one) => ({ ...one, end: 4 })), ['🐈'])),
    [['', '🐈'], ['', '·'], ['', '·']]);
same('a blank put before the text', parts(readTokens([{ id: 4, text: '▁', start: 0, end: 1 },
    { id: 5, text: '<', start: 0, end: 1 }], ['<s'])), [['', '·'], ['', '<']]);
same('half a character at the end', readTokens([{ ...cat, end: 2 }], ['🐈'])[0].reading.length > 0, true);

same('what turns the text beside it is a code', said(read(tokensOf([{ text: 'a\u202eb' }, { text: 'c\r' }]),
    'a\u202ebc\r')), '[CLS]a‹U+202E›bc␍');
same('other scripts stand as they are',
    said(read(tokensOf([{ text: 'שלום' }, { text: '▁世界', size: 7 }]), 'שלום 世界')),
    '[CLS]שלום 世界');

const two = read([{ id: 1, text: '[CLS]', special: true }, { id: 2, text: 'a', start: 0, end: 1, sequence: 0 },
    { id: 3, text: '[SEP]', special: true }, { id: 4, text: 'b', start: 2, end: 3, sequence: 1 }], 'a', '  b');
same('of two texts each begins anew', parts(two), [['', '[CLS]'], ['', 'a'], ['', '[SEP]'], ['  ', 'b']]);
same('and says which it is', two.map(({ sequence }) => sequence), [0, 0, 0, 1]);

const ids = (...texts) => readTokens(texts.map((text, id) => ({ id, text })), []);
same('ids without a text', said(ids('▁Once', '▁upon', '<0x0A>')), ' Once upon⏎\n');
same('ids of a vocabulary of bytes', said(ids('Once', 'Ġupon', 'ÃŃ', 'Ċ')), 'Once uponí⏎\n');
same('ids without a vocabulary', said(ids(undefined, undefined)), '0 1');
