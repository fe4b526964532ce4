// SPDX-License-Identifier: Apache-2.0
/* html.js - a view as one HTML file that asks nobody for anything: the picture, its numbers, and a small script that
 * names the cell under the pointer. */
import { escapeXml } from './svg_text.js';
import { nameCells } from './html_script.js';

const STYLE = `:root{color-scheme:light}
body{margin:16px;font:15px/1.45 system-ui,sans-serif;color:#1b1e24;background:#fff}
svg{max-width:100%;height:auto}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f5f7;padding:8px}
#cell{min-height:1.5em;margin:4px 0;font-variant-numeric:tabular-nums}`;

/* JSON between script tags: no "<", so that no text ends the script or begins a comment. */
function scriptJson(value) {
    return JSON.stringify(value).replace(/[<\u2028\u2029]/g,
        (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function base64Of(values) {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    let text = '';
    for (let i = 0; i < bytes.length; i += 0x8000)
        text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    return btoa(text);
}

/* Lists of tokens are there once, however many maps have them. */
function dataOf({ panels }, { places, width }) {
    const lists = [];
    const listOf = (tokens) => {
        const written = JSON.stringify(tokens);
        const found = lists.findIndex((list) => list.written === written);
        return found >= 0 ? found : lists.push({ written, tokens }) - 1;
    };
    const maps = places.map((place, i) => ({ place, name: panels[i].name, shape: panels[i].shape,
        first: [panels[i].rows[0], panels[i].keys[0]], rows: listOf(panels[i].rowTokens),
        keys: listOf(panels[i].keyTokens), values: base64Of(panels[i].values) }));
    return { width, lists: lists.map(({ tokens }) => tokens), maps };
}

/* Where the view came from. */
const originOf = (lines, link) => (link === null ? '' : `<p>The request that made this view:</p>
<pre>${escapeXml(lines.join('\n'))}</pre>
<p>The view itself, where the daemon runs: <a href="${escapeXml(link)}">${escapeXml(link)}</a></p>
`);

/* svg is what svgOf() gives, lines are those for curl, link is the address of the view; null of one that came out of a
 * file alone. */
export function htmlOf(sheet, svg, lines, link) {
    return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeXml(sheet.title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escapeXml(sheet.title)}</h1>
${sheet.off ? `<p><strong>${escapeXml(sheet.off)}</strong></p>
` : ''}<p id="cell" role="status">${svg.places.length > 0 ? 'Point at a cell to read its weight.' : ''}</p>
${svg.text}
${originOf(lines, link)}</main>
<script type="application/json" id="data">${scriptJson(dataOf(sheet, svg))}</script>
<script>(${nameCells})();</script>
</body>
</html>
`;
}
