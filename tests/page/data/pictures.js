// SPDX-License-Identifier: Apache-2.0
/* pictures.js - a picture becomes the pixels that the model's description asks for; the patches are where they are
 * seen. */
const { openSource } = await import(at('open.js'));
const { readPicture } = await import(at('pixels.js'));
const { writeSafetensors } = await import(at('safetensors.js'));
const { getJson } = await import(at('api.js'));
const { models } = await getJson('v1/models');
const form = (name) => models.find((model) => model.name === name).pixels;

/* 300 x 100: left third red, right third black, the middle one green, but its upper right quarter blue. */
const canvas = document.createElement('canvas');
[canvas.width, canvas.height] = [300, 100];
const context = canvas.getContext('2d');
for (const [colour, ...place] of [['#000', 0, 0, 300, 100], ['#f00', 0, 0, 100, 100], ['#0f0', 100, 0, 100, 100],
    ['#00f', 150, 0, 50, 50]]) {
    context.fillStyle = colour;
    context.fillRect(...place);
}
const png = await new Promise((done) => canvas.toBlob(done));
const file = new File([png], '<b>.png', { type: 'image/png' });

const sizeOf = async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    return [image.naturalWidth, image.naturalHeight];
};

/* The middle square of 6 x 6: green, and blue above right. */
const cut = await readPicture(file, { ...form('clip'), mean: [0, 0, 0], std: [1, 1, 1] });
const channel = (values, c) => [...values.subarray(36 * c, 36 * (c + 1))];
const blue = Array.from({ length: 36 }, (_, i) => (i < 18 && i % 6 >= 3 ? 1 : 0));
same('cut: red', channel(cut.pixels.values, 0), Array(36).fill(0));
same('cut: green', channel(cut.pixels.values, 1), blue.map((value) => 1 - value));
same('cut: blue', channel(cut.pixels.values, 2), blue);
const { url: cutUrl, ...cutShown } = cut.shown;
same('cut: shown', [cutShown, await sizeOf(cutUrl)],
    [{ patchRows: 3, patchColumns: 3, height: 100, width: 100 }, [100, 100]]);

/* The whole of it, pressed into a square; 0.5 and 0.5 make -1 to 1. */
const pressed = await readPicture(file, form('vit'));
channel(pressed.pixels.values, 0).forEach((value, i) => near(`pressed: red ${i}`, value, i % 6 < 2 ? 1 : -1, 0.06));
same('pressed: shown', [pressed.shown.width, pressed.shown.height], [300, 100]);
const uneven = await readPicture(file, { ...form('vit'), width: 7, height: 8, patch: 3 });
same('what no patch covers is not shown', [uneven.shown.width, uneven.shown.height, uneven.shown.patchRows,
    uneven.shown.patchColumns], [257, 75, 2, 2]);

const vit = await openSource({ state: { model: 'vit' }, file, models });
const { first, url } = vit.picture;
same('tokens of patches', [first, vit.layers[0].rowTokens.map(({ label }) => label).join('|'), vit.title], [1,
    '[CLS]|patch 0,0|patch 0,1|patch 0,2|patch 1,0|patch 1,1|patch 1,2|patch 2,0|patch 2,1|patch 2,2', 'vit: <b>.png']);
same('pictures have no delimiters', (await vit.statistics()).get(1).delimiters, [null, null]);
await vit.close();
same('a closed source gives its picture back', await sizeOf(url).catch(() => 'gone'), 'gone');

const clip = await openSource({ state: { model: 'clip' }, file, models });
same('the vision side', clip.layers.map(({ layer, kind, rows }) => [layer, kind, rows]),
    [[2, 'vision', 10], [3, 'vision', 10]]);
await clip.close();

/* Numbers in place of a picture give the same map. */
const numbers = fileOf('p.safetensors', writeSafetensors({ pixels: pressed.pixels }));
const openVit = (given) => openSource({ state: { model: 'vit' }, file: given, models });
const [one, other] = await Promise.all([numbers, file].map(openVit));
const map = { head: 'all', rows: [0, 10], keys: [0, 10], cells: [10, 10] };
same('pixels of a file', [...(await one.maps(1, map)).values], [...(await other.maps(1, map)).values]);
same('are seen, too', [one.picture.first, await sizeOf(one.picture.url)], [1, [6, 6]]);
await Promise.all([one.close(), other.close()]);

await fails('no picture', () => openVit(fileOf('a.png', 'x', 'image/png')), 'a.png');
await fails('another model', () => openSource({ state: { model: 't5' }, file, models }), 't5', '\'vit\'');

const t5 = await openSource({ state: { model: 't5', text: null, tokens: [3, 4, 5] }, models });
same('sides of an encoder-decoder', t5.layers.map(({ kind, rows, keys, rowTokens, keyTokens }) =>
    `${kind} ${rows}x${keys} ${rowTokens[0].label} ${keyTokens.at(-1).label}`),
['encoder 3x3 3 5', 'encoder 3x3 3 5', 'decoder 1x1 0 0', 'decoder 1x1 0 0', 'cross 1x3 0 5', 'cross 1x3 0 5']);
same('cross attention has no distance', (await t5.statistics()).get(4).distance, [null, null]);
await t5.close();
