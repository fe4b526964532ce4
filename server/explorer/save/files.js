// SPDX-License-Identifier: Apache-2.0
/* files.js - names of files that say what they hold, and how a browser saves one. */

/* What a file system and a shell take without quotes; all else becomes one "-". */
function plain(text) {
    return text.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[.-]+|-+$/g, '').slice(0, 80) || 'file';
}

/* "stories260K-head-layer1-head4.png"; for a paper "stories260K-head-layer1-head4-85mm.png". */
export function fileName({ model, view, layer, head }, ending, form = null) {
    const words = [plain(model ?? 'attnd'), view];
    if (view !== 'overview')
        words.push(`layer${layer}`);
    if (view !== 'overview' && view !== 'tokens')
        words.push(`head${head}`);
    if (form)
        words.push(form);
    return `${words.join('-')}.${ending}`;
}

/* Saves a Blob, a text or bytes under a name. */
export function saveAs(content, name, type) {
    const blob = content instanceof Blob ? content : new Blob([content], { type });
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
