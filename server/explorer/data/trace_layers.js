// SPDX-License-Identifier: Apache-2.0
/* trace_layers.js - the layers of a kept trace, with what stands at each row and key. */
import { countTokens, patchTokens } from './tokens.js';

/* Which of the model's inputs the rows and the keys of a kind of layer are; 'self' has that of the model. */
const SIDES = {
    encoder: ['tokens', 'tokens'], decoder: ['decoder', 'decoder'], cross: ['decoder', 'tokens'],
    text: ['tokens', 'tokens'], vision: ['patches', 'patches'], self: ['own', 'own'],
};

/* Tokens of one side of a layer: those that are known, if they are as many as the layer has there. */
function sideOf(known, side, count, word) {
    const lists = side === 'own' ? [known.tokens, known.patches, known.decoder] : [known[side]];
    return lists.find((list) => list && list.length === count) ?? countTokens(count, word);
}

/* The layers of GET /v1/traces/{id}. known is {tokens, decoder, patches}, lists of tokens or null. */
export function layersOf(kept, known) {
    return kept.layers.map(({ layer, kind, heads, rows, keys, head_dim: headDim }) => {
        const [rowSide, keySide] = SIDES[kind] ?? SIDES.self;
        const keyTokens = sideOf(known, keySide, keys, 'row');
        const rowTokens = rowSide === keySide && rows === keys ? keyTokens : sideOf(known, rowSide, rows, 'row');
        return { layer, kind, heads, rows, keys, headDim, rowTokens, keyTokens };
    });
}

/* The grid of a picture over the rows of a layer that sees it: what comes before the patches is counted. null where no
 * layer has room for its patches. */
export function pictureOf(kept, shown) {
    const layer = kept.layers.find(({ kind }) => kind === 'vision') ?? kept.layers[0];
    const first = layer ? layer.rows - shown.patchRows * shown.patchColumns : -1;
    return first >= 0 ? { ...shown, first } : null;
}

/* The tokens of a picture, or null. */
export function patchesOf(picture) {
    return picture && patchTokens(picture);
}
