// SPDX-License-Identifier: Apache-2.0
/* html_script.js - what runs in a saved HTML file. It is written there as text, so it uses nothing from outside its
 * own body. */

export function nameCells() {
    const { width, lists, maps } = JSON.parse(document.getElementById('data').textContent);
    const svg = document.querySelector('svg');
    const line = document.getElementById('cell');
    for (const map of maps)
        map.weights = new Float32Array(Uint8Array.from(atob(map.values), (sign) => sign.charCodeAt(0)).buffer);
    const tokenAt = (tokens, part) => Math.min(tokens.length - 1, Math.floor(part * tokens.length));
    svg.addEventListener('pointermove', (event) => {
        const box = svg.getBoundingClientRect();
        const zoom = width / box.width;
        const x = (event.clientX - box.left) * zoom;
        const y = (event.clientY - box.top) * zoom;
        const map = maps.find(({ place }) => x >= place.x && x < place.x + place.width &&
            y >= place.y && y < place.y + place.height);
        if (!map) {
            line.textContent = 'Point at a cell to read its weight.';
            return;
        }
        const row = tokenAt(lists[map.rows], (y - map.place.y) / map.place.height);
        const key = tokenAt(lists[map.keys], (x - map.place.x) / map.place.width);
        const cells = [[row, lists[map.rows].length], [key, lists[map.keys].length]]
            .map(([place, count], i) => Math.floor(place * map.shape[i] / count));
        const weight = map.weights[cells[0] * map.shape[1] + cells[1]];
        const tokens = [lists[map.rows], lists[map.keys]].map((list, i) => {
            const [begin, end] = [cells[i], cells[i] + 1].map((cell) => Math.ceil(cell * list.length / map.shape[i]));
            const first = `${list[begin]} (${begin + map.first[i]})`;
            return end - begin === 1 ? first : `${first} to ${list[end - 1]} (${end - 1 + map.first[i]})`;
        });
        if (Number.isNaN(weight)) {
            line.textContent = `${map.name}: ${tokens[0]} may not look at ${tokens[1]}`;
            return;
        }
        const one = map.shape[0] === lists[map.rows].length && map.shape[1] === lists[map.keys].length;
        line.textContent = `${map.name}: ${tokens[0]} looks at ${tokens[1]}: ${one ? '' : 'at most '}` +
            `${Number(weight.toPrecision(6))}`;
    });
}
