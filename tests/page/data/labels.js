// SPDX-License-Identifier: Apache-2.0
/* labels.js - labels are cut to what fits in a few steps, however long a token is. */
const { fitLabel } = await import(at('../draw/axis.js'));
let asked = 0;
const within = (most) => (text) => {
    asked++;
    return [...text].length <= most;
};

same('what fits stays', fitLabel('Once', within(4)), 'Once');
same('what does not is cut', fitLabel('Once upon', within(6)), 'Once …');
same('an empty label', fitLabel('', within(0)), '');
same('one letter always stays', [fitLabel('a', within(0)), fitLabel('ab', within(0))], ['a', 'a…']);
same('no letter is cut apart', fitLabel('😀😀😀', within(2)), '😀…');
for (const most of [1, 2, 7, 50])
    for (const count of [1, 2, 8, 51, 150])
        same(`${count} letters on the room of ${most}`, [...fitLabel('b'.repeat(count), within(most))].length,
            count > 1 ? Math.max(2, Math.min(count, most)) : 1);
asked = 0;
same('a token of a million letters', fitLabel('c'.repeat(1e6), within(9)), 'cccccccc…');
same('its steps are few', asked < 20, true);
