// SPDX-License-Identifier: Apache-2.0
/* curl.js - the request that made a view, as a line for a shell. */

/* A text as one word of sh, whatever is in it: all but a single quote means itself between single quotes. */
export function quote(text) {
    return `'${text.replace(/'/g, '\'\\\'\'')}'`;
}

/* The line of a request {method, path, headers, body} of a source. base is the page's address; hasKey says that the
 * daemon wants a key: the line then reads it from $KEY. A body of bytes is a file beside the line, named bodyFile. */
export function curlOf({ method = 'GET', path, headers = {}, body = null }, { base, hasKey = false, bodyFile }) {
    const words = ['curl', '-sS', quote(new URL(path, base).href.replace(/#.*$/, ''))];
    if (method !== (body === null ? 'GET' : 'POST'))
        words.push('-X', method);
    for (const [name, value] of Object.entries(headers))
        words.push('-H', quote(`${name}: ${value}`));
    if (hasKey)
        words.push('-H', '"Authorization: Bearer $KEY"');
    if (typeof body === 'string')
        words.push('--data-raw', quote(body));
    else if (body !== null)
        words.push('--data-binary', quote(`@${bodyFile}`));
    return words.join(' ');
}

const POOL = 64;                                 /* cells a side of the overview's maps */

/* The metric of the answer that is looked at. */
function askedOf({ position, target, against }, { predictions }) {
    const first = predictions?.[0] ?? null;
    return { position: position ?? first?.position, token: target ?? first?.tokens[0].id,
        ...(against === null ? {} : { against }) };
}

/* The requests of a view: of the head that is looked at, in `why` with all stages, in `compare` of both sides, in
 * `answer` the effects of heads; none where no request made it. */
export function requestsOf(state, source, other) {
    if (source.request() === null)
        return [];
    if (state.view === 'overview')
        return [withBody(source.request(), ({ outputs, keep, ...body }) => /* the maps, in place of a kept trace */
            (keep ? { ...body, weight_map: { pool: [POOL, POOL] } } : { outputs, ...body }))];
    if (state.view === 'answer')
        return [{ ...withBody(source.request(), ({ outputs: _, keep: __, top_k_tokens: ___, compare: ____, ...body }) =>
            ({ ...body, metric: askedOf(state, source), each: 'heads' })), path: 'v1/effects' }];
    const one = source.weightsRequest(state.layer, state.head);
    if (state.view === 'tokens')
        return [withBody(one, ({ weight_map: map, ...body }) =>
            ({ ...body, ...(state.heads ? { weight_map: { ...map, heads: state.heads } } : {}) }))];
    if (state.view === 'why')
        return [withBody(one, (body) => ({ ...body, outputs: ['weights', 'scores', 'masked', 'lse'] }))];
    if (state.view === 'compare' && other)
        return [one, other.source.weightsRequest(other.layer, other.head)];
    return [one];
}

/* The same request with another JSON body; bodies of bytes stay as they are. */
function withBody(request, changed) {
    if (typeof request.body !== 'string')
        return request;
    return { ...request, body: JSON.stringify(changed(JSON.parse(request.body))) };
}
