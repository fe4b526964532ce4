// SPDX-License-Identifier: Apache-2.0
/* axis.js - the tokens along a map: as many labels as can be read, and those of marked tokens. */

export const TEXT_SIZE = 12;
const SPACE_MIN = TEXT_SIZE + 2;
const PAD = 5;
const LABELS_MEASURED = 40;
const LETTERS_MAX = 200;                         /* of a label: no axis has room for more */

/** The text, or so many letters of its beginning and "…" that fits(text) holds; at least one letter. A vocabulary may
 * have a token of a million letters. */
export function fitLabel(text, fits) {
    const letters = [...text.slice(0, 2 * LETTERS_MAX)].slice(0, LETTERS_MAX);
    const isWhole = letters.join('').length === text.length;
    if (isWhole && fits(text))
        return text;
    let few = 1;
    let many = isWhole ? letters.length - 1 : letters.length;
    while (few < many) {
        const middle = Math.ceil((few + many) / 2);
        if (fits(`${letters.slice(0, middle).join('')}…`))
            few = middle;
        else
            many = middle - 1;
    }
    return letters.length > 1 ? `${letters.slice(0, few).join('')}…` : text;
}

/* The labels cut to a width, by context font and width: measuring text is slow. */
class FittedLabels {
    #fitted = new Map();

    fit(context, text, width) {
        const name = `${context.font}|${Math.round(width)}|${text}`;
        let fitted = this.#fitted.get(name);
        if (fitted !== undefined)
            return fitted;
        fitted = fitLabel(text, (cut) => context.measureText(cut).width <= width);
        if (this.#fitted.size > 20000)
            this.#fitted.clear();
        this.#fitted.set(name, fitted);
        return fitted;
    }
}

const labels = new FittedLabels();

/** The width in CSS pixels that the labels of tokens take, at most `most`, where the smallest size of
 * a token is `size`. */
export function axisWidth(context, tokens, size, most) {
    const longest = tokens.map(({ label }) => label).sort((a, b) => b.length - a.length);
    const widths = longest.slice(0, LABELS_MEASURED)
        .map((label) => context.measureText(label.slice(0, LETTERS_MAX)).width);
    const numbers = labelStep(size) === 1 ? 0 : context.measureText(`${tokens.length} `).width;
    return Math.ceil(Math.min(most, Math.max(24, ...widths) + numbers + 2 * PAD));
}

/** Every how many tokens there is room for a label, where a token takes `size` CSS pixels. */
export function labelStep(size) {
    for (let step = 1; ; step *= 10)
        for (const times of [1, 2, 5])
            if (step * times * size >= SPACE_MIN)
                return step * times;
}

/* With labels left out, the numbers tell where one is. */
const textOf = (tokens, i, step) => (step === 1 ? tokens[i].label : `${i} ${tokens[i].label}`);

/* One label; (x, y) is the end of it that touches the map. */
function drawLabel(context, text, { x, y, isUpright, space, theme, mark }) {
    const fitted = labels.fit(context, text, space - 2 * PAD);
    context.save();
    context.translate(x, y);
    if (isUpright)
        context.rotate(-Math.PI / 2);
    context.textAlign = isUpright ? 'left' : 'right';
    const towards = isUpright ? PAD : -PAD;
    if (mark) {
        const width = context.measureText(fitted).width + 2 * PAD;
        context.fillStyle = mark === 'fixed' ? theme.mark : theme.ink;
        context.fillRect(isUpright ? 0 : -width, -SPACE_MIN / 2 - 1, width, SPACE_MIN + 2);
    }
    context.fillStyle = mark ? theme.ground : theme.ink;
    context.fillText(fitted, towards, 0);
    context.restore();
}

/* Labels above wide cells lie flat. */
function drawFlatLabel(context, text, { x, y, space, theme, mark }) {
    const fitted = labels.fit(context, text, space);
    context.textAlign = 'center';
    if (mark) {
        const width = context.measureText(fitted).width + 2 * PAD;
        context.fillStyle = mark === 'fixed' ? theme.mark : theme.ink;
        context.fillRect(x - width / 2, y - SPACE_MIN - PAD + 1, width, SPACE_MIN + 4);
    }
    context.fillStyle = mark ? theme.ground : theme.ink;
    context.fillText(fitted, x, y - PAD - TEXT_SIZE / 2);
}

/**
 * Draws an axis. axis: {tokens, first, size, length, space, isUpright} with the first token seen
 * (with fraction), a token's size, the length and the breadth of the axis in CSS pixels;
 * isUpright is the axis of the keys. marks: [{token, kind: 'hover' | 'fixed'}], drawn last.
 */
export function drawAxis(context, axis, marks, theme) {
    const { tokens, first, size, length, space, isUpright } = axis;
    const step = labelStep(size);
    const isFlat = isUpright && size >= axis.flatFrom;
    const end = Math.min(tokens.length, first + length / size);
    context.textBaseline = 'middle';
    const draw = (i, mark) => {
        const at = (i + 0.5 - first) * size;
        const text = textOf(tokens, i, step);
        if (isFlat)
            drawFlatLabel(context, text, { x: at, y: 0, space: size - 2, theme, mark });
        else
            drawLabel(context, text, { x: isUpright ? at : 0, y: isUpright ? 0 : at, isUpright,
                space, theme, mark });
    };
    for (let i = Math.ceil((first - 0.5) / step) * step; i + 0.5 < end + 0.0001; i += step)
        if (i >= 0 && i + 0.5 >= first)
            draw(i, null);
    for (const { token, kind } of marks)
        if (token !== null && token < tokens.length && token + 0.5 >= first && token + 0.5 < end)
            draw(token, kind);
}
