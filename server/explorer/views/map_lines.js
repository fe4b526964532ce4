// SPDX-License-Identifier: Apache-2.0
/* map_lines.js - whole rows and columns of maps in exact weights, kept while a source is looked at. */
import { useEffect, useRef, useState } from '../vendor/html.js';

const CELLS_MAX = 4096; /* of a piece, along a side */
const KEPT_MAX = 128;
const HOVER_MS = 30;

/* Of a source: the lines that came, by name, the least recently used first. */
const kept = new WeakMap();

function keptOf(source) {
    if (!kept.has(source))
        kept.set(source, new Map());
    return kept.get(source);
}

const nameOf = ({ layer, head, side, index }) => `${layer}/${head}/${side}/${index}`;

/* The pieces [begin, end) of a line that are answered one weight a cell. */
function piecesOf(count) {
    return Array.from({ length: Math.ceil(count / CELLS_MAX) },
        (_, i) => [i * CELLS_MAX, Math.min(count, (i + 1) * CELLS_MAX)]);
}

/** Asks for the weights of a row ({side: 'row'}) or of a key ('key') of a layer: of each of its
 * heads where head is 'all', else of one. Gives [heads] arrays of numbers, NaN where a pair may not
 * be seen. */
export async function askLines(source, { layer, head, side, index }, signal) {
    const { rows, keys } = source.layers.find((one) => one.layer === layer);
    const count = side === 'row' ? keys : rows;
    const pieces = await Promise.all(piecesOf(count).map((along) => {
        const across = [index, index + 1];
        const cells = along[1] - along[0];
        return source.maps(layer, { head, signal, hidden: true,
            ...(side === 'row' ? { rows: across, keys: along, cells: [1, cells] }
                : { rows: along, keys: across, cells: [cells, 1] }) });
    }));
    return Array.from({ length: pieces[0].heads }, (_, h) => {
        const line = new Float32Array(count);
        let at = 0;
        for (const { rows: r, keys: k, values } of pieces) {
            line.set(values.subarray(h * r * k, (h + 1) * r * k), at);
            at += r * k;
        }
        return line;
    });
}

function keep(source, line, values) {
    const lines = keptOf(source);
    lines.delete(nameOf(line));
    lines.set(nameOf(line), values);
    if (lines.size > KEPT_MAX)
        lines.delete(lines.keys().next().value);
}

/** The weights of one line where they are at hand, else null. */
export function lineAtHand(source, line) {
    return keptOf(source).get(nameOf(line)) ?? null;
}

/** A line as {index, values}: the one asked for, or the last of its kind while that is on its way;
 * null where there is none. */
export function useLine(source, { layer, head, side, index }, onFault) {
    const [, setCame] = useState(0);
    const last = useRef(null);
    const line = { layer, head, side, index };
    const known = index === null ? null : lineAtHand(source, line);
    if (known)
        last.current = { source, ...line, values: known };
    useEffect(() => {
        if (index === null || known)
            return undefined;
        const ending = new AbortController();
        const timer = setTimeout(() => askLines(source, line, ending.signal).then(([values]) => {
            keep(source, line, values);
            setCame((count) => count + 1);
        }, onFault), HOVER_MS);
        return () => {
            clearTimeout(timer);
            ending.abort();
        };
    }, [source, layer, head, side, index]);
    const shown = last.current;
    const isOfKind = shown && shown.source === source && shown.layer === layer
        && shown.head === head && shown.side === side;
    return index !== null && isOfKind ? shown : null;
}

/** The weights of a row in several layers or in all heads of one: asks is [{layer, head}], where
 * head may be 'all'. Gives a Map by "layer/head" of those that came. */
export function useLines(source, row, asks, onFault) {
    const [lines, setLines] = useState(new Map());
    const asked = JSON.stringify(asks);
    useEffect(() => {
        setLines(new Map());
        if (row === null)
            return undefined;
        const ending = new AbortController();
        for (const { layer, head } of asks)
            askLines(source, { layer, head, side: 'row', index: row }, ending.signal).then((all) =>
                setLines((before) => new Map([...before, ...all.map((values, h) =>
                    [`${layer}/${head === 'all' ? h : head}`, values])])), onFault);
        return () => ending.abort();
    }, [source, row, asked]);
    return lines;
}

/** The weights of a row or a key in all heads of a layer, as {side, index, lines: [heads] arrays}; null while they are
 * read, and where index is null. */
export function useAllHeads(source, layer, { side, index }, onFault) {
    const [whole, setWhole] = useState(null);
    useEffect(() => {
        setWhole(null);
        if (index === null)
            return undefined;
        const ending = new AbortController();
        const timer = setTimeout(() => askLines(source, { layer: layer.layer, head: 'all', side, index },
            ending.signal).then((lines) => setWhole({ side, index, lines }), onFault), HOVER_MS);
        return () => {
            clearTimeout(timer);
            ending.abort();
        };
    }, [source, layer, side, index]);
    return whole?.side === side && whole.index === index ? whole : null;
}
