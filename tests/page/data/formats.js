// SPDX-License-Identifier: Apache-2.0
/* formats.js - files that others wrote are read, what is written is read again, and what is broken is said.
 *
 * The arrays were saved by numpy 1.24.2: numpy.lib.format.write_array() of (arange(6) - 2.5).reshape(2, 3) as each
 * type, of version 2 for f4, and of asfortranarray(arange(24).reshape(2, 3, 4)). */
const { readNpy } = await import(at('npy.js'));
const { readSafetensors, writeSafetensors } = await import(at('safetensors.js'));
const { brainsOfFloats, floatsOfBrains, floatsOfHalves, halvesOfFloats } = await import(at('half.js'));

const NPY = {
    f2: 'k05VTVBZAQB2AHsnZGVzY3InOiAnPGYyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAg'
        + 'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAwQC+ALgAOAA+AEE=',
    f4: 'k05VTVBZAgB0AAAAeydkZXNjcic6ICc8ZjQnLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMiwgMyksIH0gICAg'
        + 'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAACDAAADAvwAAAL8AAAA/AADAPwAA'
        + 'IEA=',
    f8: 'k05VTVBZAQB2AHsnZGVzY3InOiAnPGY4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAg'
        + 'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAEwAAAAAAAAPi/AAAAAAAA'
        + '4L8AAAAAAADgPwAAAAAAAPg/AAAAAAAABEA=',
    i4: 'k05VTVBZAQB2AHsnZGVzY3InOiAnPGk0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAg'
        + 'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr+/////////wAAAAAAAAAAAQAAAAIA'
        + 'AAA=',
    i8: 'k05VTVBZAQB2AHsnZGVzY3InOiAnPGk4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAg'
        + 'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr+////////////////////AAAAAAAA'
        + 'AAAAAAAAAAAAAAEAAAAAAAAAAgAAAAAAAAA=',
    fortran: 'k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMiwgMywgNCksIH0gICAg'
        + 'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAABAQQAAgEAAAIBBAAAAQQAA'
        + 'oEEAAIA/AABQQQAAoEAAAIhBAAAQQQAAqEEAAABAAABgQQAAwEAAAJBBAAAgQQAAsEEAAEBAAABwQQAA4EAAAJhBAAAwQQAAuEE=',
};
const DTYPES = { f2: 'F16', f4: 'F32', f8: 'F64', i4: 'I32', i8: 'I64' };
const upTo = (count) => Array.from({ length: count }, (_, i) => i);

for (const [type, dtype] of Object.entries(DTYPES)) {
    const array = readNpy(bytesOf(NPY[type]));
    const values = upTo(6).map((i) => (type[0] === 'i' ? Math.trunc(i - 2.5) + 0 : i - 2.5));
    same(`numpy's ${type}`, [array.dtype, array.shape, Array.from(array.values, Number)], [dtype, [2, 3], values]);
}
const turned = readNpy(bytesOf(NPY.fortran));
same('Fortran\'s order', [turned.shape, [...turned.values]], [[2, 3, 4], upTo(24)]);

await fails('cut short', () => readNpy(bytesOf(NPY.f8).slice(0, -1)), '47 bytes', 'needs 48');
await fails('no header', () => readNpy(bytesOf(NPY.f8).slice(0, 40)), 'cut short');
await fails('empty', () => readNpy(new ArrayBuffer(0)), '.npy');
const bigEndian = new Uint8Array(bytesOf(NPY.f8));
bigEndian[bigEndian.indexOf('<'.charCodeAt(0))] = '>'.charCodeAt(0);
await fails('big-endian', () => readNpy(bigEndian.buffer), '>f8', '<f8');

/* All halves; rounding of what lies between two, which goes to the even one, and behind the largest. */
const halves = Uint16Array.from(upTo(65536));
const floats = floatsOfHalves(halves);
const changed = halvesOfFloats(floats).findIndex((half, i) => half !== i && !Number.isNaN(floats[i]));
same('the first half that is another there and back', changed, -1);
same('known halves', [...floatsOfHalves([0x3c00, 0xc000, 1, 0x7bff, 0x3555])],
    [1, -2, 2 ** -24, 65504, 0.333251953125]);
same('infinite halves', floatsOfHalves([0x7c00, 0xfc00]).join(), 'Infinity,-Infinity');
for (let half = 0; half < 0x7bff; half++) {
    const middle = (floats[half] + floats[half + 1]) / 2;
    if (halvesOfFloats([middle])[0] !== half + half % 2)
        faults.push(`the half of ${middle} is no even one`);
}
same('beyond the largest', [...halvesOfFloats([65519, 65520, 1e9])], [0x7bff, 0x7c00, 0x7c00]);
same('bfloat16', [...floatsOfBrains(brainsOfFloats([1, -2.5, 3.140625, 1 + 2 ** -8, 1 + 3 * 2 ** -8]))],
    [1, -2.5, 3.140625, 1, 1 + 2 ** -6]);

const tensors = {
    a: { dtype: 'F32', shape: [2, 2], values: [1, 2, 3, 0.5] }, b: { dtype: 'I64', shape: [2], values: [1n, -2n] },
    c: { dtype: 'BF16', shape: [3], values: [1, 0.5, -3] }, d: { dtype: 'F16', shape: [1], values: [0.25] },
    e: { dtype: 'F64', shape: [], values: [Math.PI] }, 'e"<é': { dtype: 'F32', shape: [0, 3], values: [] },
};
const file = writeSafetensors(tensors, { name: 'é"\\' });
const read = readSafetensors(file.buffer);
same('metadata', read.metadata, { name: 'é"\\' });
for (const [name, { dtype, shape, values }] of Object.entries(tensors)) {
    const tensor = read.tensors.get(name);
    same(name, [tensor.dtype, tensor.shape, Array.from(tensor.values, Number)], [dtype, shape, values.map(Number)]);
}

/* A safetensors file with this header and so many bytes behind it. */
const fileWith = (header, bytes) => {
    const text = new TextEncoder().encode(header);
    const whole = new Uint8Array(8 + text.length + bytes);
    new DataView(whole.buffer).setBigUint64(0, BigInt(text.length), true);
    whole.set(text, 8);
    return whole.buffer;
};
const tensorAt = (begin, end, more = {}) => ({ dtype: 'F32', shape: [1], data_offsets: [begin, end], ...more });
const fileOfTensors = (entries, bytes) => fileWith(JSON.stringify(entries), bytes);
same('unaligned', [...readSafetensors(fileWith('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} ', 4)).tensors
    .get('a').values], [0]);
for (const [what, buffer, ...words] of [
    ['7 bytes', new ArrayBuffer(7), '7 bytes'],
    ['a header beyond the file', file.buffer.slice(0, 40), 'cut short'],
    ['no JSON', fileWith('{', 0), 'no JSON'],
    ['a list', fileWith('[]', 0), 'no JSON object'],
    ['an unknown dtype', fileOfTensors({ a: tensorAt(0, 4, { dtype: 'F8' }) }, 4), 'F8', 'BF16'],
    ['no shape', fileOfTensors({ a: tensorAt(0, 4, { shape: [-1] }) }, 4), 'shape'],
    ['another size', fileOfTensors({ a: tensorAt(0, 8) }, 8), 'needs 4 bytes', 'has 8'],
    ['outside', fileOfTensors({ a: tensorAt(4, 8) }, 4), '[4,8]', '4 bytes'],
    ['twice the same place', fileOfTensors({ a: tensorAt(0, 4), b: tensorAt(0, 4) }, 4), 'begins at byte 0'],
    ['a hole', fileOfTensors({ a: tensorAt(4, 8) }, 8), 'begins at byte 4'],
    ['bytes of nothing', fileOfTensors({ a: tensorAt(0, 4) }, 8), '8 bytes of numbers'],
    ['numbers as metadata', fileOfTensors({ __metadata__: { a: 1 } }, 0), '__metadata__'],
])
    await fails(what, () => readSafetensors(buffer), ...words);

const random = numbersFrom(5);
for (let i = 0; i < 2000; i++) {
    const broken = file.slice();
    broken[Math.floor(random() * broken.length)] ^= 1 << Math.floor(random() * 8);
    try {
        readSafetensors(broken.buffer.slice(0, random() < 0.8 ? broken.length : Math.floor(random() * broken.length)));
    } catch (error) {
        if (error.name !== 'ApiFault')
            faults.push(`a broken file: ${error.stack}`);
    }
}
