// SPDX-License-Identifier: Apache-2.0
// lines.js - lines to tokenize: scripts, emoji, combining marks, spaces, controls, code, any
// character of Unicode. The same seed gives the same lines.
'use strict';

const NEIGHBOURS = ['', 'a', '1', 'я', 'β', 'क', '中', 'ا', '.', ' ', '_', '\u0301', ''];

// mulberry32: a small generator of 32-bit numbers, public domain (Tommy Ettinger).
function generator(seed) {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6D2B79F5) >>> 0;
        let t = state;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

const WORDS = ('the of and to in is that for it was on are as with his they at be this from have or by one had ' +
    'tokenization attention model transformer Hello world internationalization antidisestablishmentarianism ' +
    "don't we'll I'm they've she'd you're rock'n'roll L'été naïve café résumé Straße İstanbul ΑΣ ς Οδυσσεύς " +
    'Привет мир токенизация Київ שלום עולם مرحبا بالعالم सुनमस्ते दुनिया বাংলা தமிழ் ไทยภาษา ລາວ ဗမာ ខ្មែរ አማርኛ ქართული Հայերեն ' +
    '你好世界 東京タワー 한국어 텍스트 データ ﾊﾝｶｸ ｆｕｌｌｗｉｄｔｈ ﬁligature ½ ² № ™ ① Ⅷ ㎏ ㍿ 12345 3.14159 1,000,000 ٣٤٥ १२३ 0x1F600 ' +
    'HTTPServer snake_case camelCase UPPER lower __init__ foo.bar() x+=1 a!=b; #include <stdio.h> printf("%d\\n") ' +
    '{"key": [1,2]} <div class="x"> https://example.com/a?b=c&d=e#f user@example.org $100.00 50% C++ C# `` \'\' ... … — – « » “ ” ‘ ’')
    .split(' ');
const EMOJI = ['😀', '👍🏽', '👨‍👩‍👧‍👦', '🇩🇪', '🏳️‍🌈', '❤️', '☺', '1️⃣', '🧑🏿‍🚀', '🤷🏼‍♂️', '\u{1FAE0}', '⌚'];
const MARKS = ['\u0301', '\u0308', '\u0327', '\u0323', '\u20DD', '\u0E34', '\u093F', '\u05B0', '\u064B', '\u3099', '\uFE0F', '\u0345'];
const SPACES = [' ', '  ', '   ', '\t', '\n', '\r\n', '\r', '\u00A0', '\u2003', '\u3000', '\u200B', '\u2028', '\u0085', '\u000B',
    '\u1680', '\u202F', '\uFEFF', '\u200D', '\u200C', '\u00AD', '\u2581', '\u2060', '\u180E', '        ', '\n\n\n'];
const CONTROLS = ['\u0000', '\u0001', '\u0007', '\u0008', '\u001B', '\u001F', '\u007F', '\u0080', '\u009F', '\uFFFD', '\uFFFE',
    '\uFFFF', '\u{10FFFF}', '\u{E0001}', '\uE000', '\u202E', '\u2066', '\u061C'];
const TOKENS = ['<s>', '</s>', '<unk>', '<pad>', '[CLS]', '[SEP]', '[MASK]', '[UNK]', '<|endoftext|>', '<|im_start|>', '<mask>',
    '<bos>', '<eos>', '<|begin_of_text|>', '<0x41>', '##ing', '\u2581the', 'Ġthe', '<start_of_turn>', '<extra_id_0>', '<|user|>'];
const RANGES = [[0x20, 0x7E], [0xA0, 0x24F], [0x250, 0x36F], [0x370, 0x52F], [0x530, 0x6FF], [0x900, 0xDFF], [0xE00, 0x11FF],
    [0x1E00, 0x20CF], [0x2100, 0x2BFF], [0x3000, 0x30FF], [0x3400, 0x9FFF], [0xAC00, 0xD7A3], [0xF900, 0xFFFD],
    [0x10000, 0x1FFFF], [0x1F300, 0x1FAFF], [0x20000, 0x2FA1F]];

function lines(count, seed) {
    const random = generator(seed);
    const below = n => Math.floor(random() * n);
    const pick = list => list[below(list.length)];
    const code = (first, last) => {
        const c = first + below(last - first + 1);
        return c >= 0xD800 && c <= 0xDFFF ? 'x' : String.fromCodePoint(c);
    };
    const any = () => code(0, below(4) ? 0xFFFF : 0x10FFFF);
    const run = (of, most) => Array.from({ length: 1 + below(most) }, of).join('');
    const script = () => { const r = pick(RANGES); return run(() => code(r[0], r[1]), 12); };
    const word = () => {
        const w = pick(WORDS);
        const kind = below(12);
        return kind === 0 ? w.toUpperCase() : kind === 1 ? w + pick(MARKS) : kind === 2 ? w.normalize('NFD') :
            kind === 3 ? w + pick(WORDS) : w;
    };
    const parts = [
        [60, word], [6, () => pick(EMOJI)], [3, () => run(() => pick(EMOJI), 5)], [3, () => run(() => pick(MARKS), 4)],
        [8, script], [4, () => run(any, 8)], [3, () => pick(CONTROLS)], [4, () => pick(TOKENS)],
        [2, () => pick('aáab-=#*_.! 0あ\n'.split('')).repeat(1 + below(80))],
        [2, () => run(() => code(0x61, 0x7A), 150)], [4, () => String(below(1e9))], [3, () => run(() => code(0x21, 0x7E), 20)],
    ];
    const total = parts.reduce((sum, part) => sum + part[0], 0);
    const part = () => {
        let at = below(total);
        for (const [weight, make] of parts) {
            if (at < weight)
                return make();
            at -= weight;
        }
    };
    const line = () => {
        const size = below(20) === 0 ? below(120) : below(14);
        let text = below(8) === 0 ? pick(SPACES) : '';
        for (let i = 0; i < size; i++)
            text += part() + (below(5) ? ' ' : below(2) ? pick(SPACES) : '');
        return text;
    };
    return Array.from({ length: count }, line);
}

// A line for each character of Unicode, which stands between characters of several classes and scripts.
function characters() {
    const all = [];
    for (let code = 0; code <= 0x10FFFF; code++)
        if (code < 0xD800 || code > 0xDFFF)
            all.push(NEIGHBOURS.join(String.fromCodePoint(code)));
    return all;
}

module.exports = { lines, characters, generator };
