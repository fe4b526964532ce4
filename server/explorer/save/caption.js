// SPDX-License-Identifier: Apache-2.0
/* caption.js - the words below a picture of a paper: what it shows, how numbers became colours, and how to make it
 * again. */
import { rangeWords } from '../draw/range.js';
import { weightText } from '../draw/scales.js';
import { listed } from './listed.js';
import { cellWords } from './sheet.js';
import { answerTokens } from './sheet_answer.js';
import { askedWords, overWords } from './sheet_text.js';

const TITLE_MAX = 160;                           /* characters of an input; the line for curl has all of it */
const SCALED = { linear: 'linear', sqrt: 'square root', log: 'logarithmic' };

const counted = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;

/* The title without the model's name. */
function inputOf({ model, title }) {
    const text = title.startsWith(`${model}: `) ? title.slice(model.length + 2) : title;
    const letters = [...text];
    return letters.length > TITLE_MAX ? `${letters.slice(0, TITLE_MAX).join('')}…` : text;
}

const partOf = (word, plural, [begin, end], count) => (begin === 0 && end === count
    ? `${count} ${count === 1 ? word : plural}` : `${plural} ${begin} to ${end - 1} of ${count}`);

/* Which rows and keys: {rows, keys} of the panel, of so many. */
function sizeWords({ rows, keys, counts }) {
    return `${partOf('query', 'queries', rows, counts[0])} down, ${partOf('key', 'keys', keys, counts[1])} across`;
}

function whatOf({ view, panels, pair, text, sort, answer }) {
    const [first] = panels;
    if (answer)
        return `what the log-prob of “${answerTokens(answer, (token) => token)}” after token ${answer.position} `
            + 'loses or gains, in nats, without each part of the prompt '
            + `(${answer.by === 'hide' ? 'hidden in all heads' : 'left out'}), each head and each layer`;
    if (text)
        return first ? `layer ${first.layer}, ${overWords(text)}: the text, each token in the colour of its weight in `
            + `${askedWords(text)}, which is outlined` : 'no head';
    if (view === 'overview') {
        const heads = panels.filter(({ isOut }) => !isOut).length;
        const layers = new Set(panels.map(({ layer }) => layer)).size;
        const order = sort === 'layer' ? ' (layers down, heads across)' : '';
        return `${counted(heads, 'head')} of ${counted(layers, 'layer')}${order}; in each map `
            + `${first ? sizeWords(first) : 'nothing'}`;
    }
    if (view === 'tokens')
        return first ? `layer ${first.layer}, heads ${listed(panels.map(({ head }) => head))}: lines from queries `
            + `(left) to keys (right), ${sizeWords(first).replace(' down', '').replace(' across', '')}; the stronger a `
            + 'line, the larger its weight' : 'no head';
    if (pair)
        return `layer ${first.layer}, head ${first.head}: query “${pair.rowToken}” (${pair.row}), key `
            + `“${pair.keyToken}” (${pair.key}), by dimension of the head, and the stages to the weight`;
    const names = panels.length === 1 ? first.name : panels.map(({ name }, i) => `(${'abc'[i]}) ${name}`).join(', ');
    return `${names}; ${sizeWords(first)}`;
}

/* Of pictures that have no colours of a scale '' . */
function coloursOf({ view, pair, text, panels, answer }, { scale, palette }) {
    if (answer)
        return 'Shares are the mean weight over all heads.';
    if (text)
        return `Colours: linear, from white at 0 to full at ${weightText(text.full)}${text.isCut ? ' and above' : ''}.`;
    if (view === 'tokens' || pair)
        return '';
    const words = panels.map(({ range, isDifference }) => (isDifference
        ? `of the difference ${rangeWords(range, scale, 'difference')}` : `weights of ${rangeWords(range, scale)}`));
    return `Colours: ${palette}, ${SCALED[scale]}, ${[...new Set(words)].join('; ')}.`;
}

function cellsOf({ pair, panels }) {
    const words = [...new Set(panels.map(cellWords).filter(Boolean))];
    return pair ? '' : words.length > 0 ? words.map((one) => `${one}.`).join(' ') : 'Each cell is one weight.';
}

const PART = /^(Rows|Keys) \d+ to /;              /* a note that the first sentence has said */

/* The caption of a sheet. look is {scale, palette}, lines are those for curl. */
export function captionOf(sheet, look, lines) {
    const cells = sheet.view === 'tokens' || sheet.answer ? '' : cellsOf(sheet);
    const isSaid = (note) => PART.test(note) || sheet.panels.some((panel) => note === `${cellWords(panel)}.`);
    const notes = sheet.notes.filter((note) => !isSaid(note));
    return [`${sheet.answer ? 'Effects in' : 'Attention weights of'} ${sheet.model ?? 'a file'}, ${whatOf(sheet)}. `
        + `Input: “${inputOf(sheet)}”.`,
        coloursOf(sheet, look), cells, ...notes].filter(Boolean).join(' ')
        + (lines.length > 0 ? `\nMade with attnd from the answer of:\n${lines.join('\n')}\n` : '\nMade with attnd.\n');
}
