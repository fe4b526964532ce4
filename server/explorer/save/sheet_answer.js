// SPDX-License-Identifier: Apache-2.0
/* sheet_answer.js - what the view Answer shows, gathered to be exported: what the answer rests on, as the API says it.
 *
 * A sheet has `answer`: {position, base, by, kind, parts: [{tokens, text, spans: [{layer, weights}], effect}], layers:
 * [{layer, heads, effect, feed_forward}]}. base is that of POST /v1/effects; spans are what the answering row looks at
 * in each head; effects are in nats, of the part hidden or left out, of each head, of the whole layer, and of its
 * feed-forward; what there is not is null. kind is that of the layers, or null where there is one. */
import { answerOfState, askLayers, askParts, askPrediction, askShares, kindsOf, layersOfKind, partsOfState,
    promptTokens } from '../data/answer.js';
import { textOfPart } from '../views/answer_prompt.js';

/* The last that a request in blocks tells. */
async function allOf(ask, source, asked) {
    let all = null;
    await ask(source, asked, new AbortController().signal, (found) => { all = found; });
    return all;
}

async function predictionOf({ position }, source) {
    const known = source.predictions.find((one) => position === null || one.position === position);
    return known ?? askPrediction(source, position);
}

/* {panels, answer, notes} of what the view shows; of several kinds of layers those that it begins with. */
export async function answerParts(source, state) {
    const answer = answerOfState(state, await predictionOf(state, source));
    const parts = partsOfState(state, source);
    const kind = kindsOf(source).at(-1);
    const { position } = answer;
    const shares = await allOf(askShares, source, { position, parts });
    const without = await allOf(askParts, source, { answer, parts, by: state.by });
    const effects = {};
    for (const each of ['heads', 'layers', ...(kind === 'cross' ? [] : ['feed_forwards'])])
        effects[each] = await allOf(askLayers, source, { answer, each, kind });
    const tokens = promptTokens(source);
    return { panels: [], notes: [], answer: { position, base: effects.heads.base, by: state.by, kind,
        parts: parts.map((part) => ({ tokens: part, text: textOfPart(tokens, part),
            spans: shares.values.get(part.join(':')).map(({ layer, shares: weights }) => ({ layer, weights })),
            effect: without.values.get(part.join(':')) ?? null })),
        layers: layersOfKind(source, kind).map(({ layer }) => ({ layer, heads: effects.heads.values.get(layer),
            effect: effects.layers.values.get(layer),
            feed_forward: effects.feed_forwards?.values.get(layer) ?? null })) } };
}

/* "␣c: 76.4 %", or of two tokens the difference of their log-probs. */
export function answerTokens({ base: { target } }, labelOf) {
    const name = (token) => labelOf(token.text ?? String(token.id));
    return target.against ? `${name(target)} against ${name(target.against)}` : name(target);
}
