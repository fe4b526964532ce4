// SPDX-License-Identifier: Apache-2.0
/* fault_words.js - what a person can do about a usual fault of the daemon, in the words of the page: the daemon speaks
 * to programs, of fields and headers. */
import { hasKey } from '../data/api.js';

const INPUTS = { text: 'text', pair: 'second text', decoder_text: 'text of the decoder',
    tokens: 'list of tokens in the link' };

/* What the field of the request is called on the page. */
function inputOf(pointer) {
    return INPUTS[pointer?.split('/')[1]] ?? 'text';
}

const MODEL = 'Choose another one in the field Model.';

/* By code, and where that says too little by the field: (fault) -> words, or null. */
const WORDS = {
    key: () => (hasKey() ? 'This daemon does not know that key. Give another one.'
        : 'This daemon wants a key from everybody. Give yours to go on.'),
    scope: () => (hasKey() ? 'Your key may not look at models. Give another one, or ask who runs the daemon.' : null),
    not_found: ({ pointer }) => (pointer === '/model' ? `This model is not served here. ${MODEL}` : null),
    loading: ({ pointer }) => (pointer === '/model' ? `This model cannot be used now. ${MODEL}`
        : 'The daemon is loading its models. That takes a moment.'),
    draining: () => 'The daemon is being stopped. Try again in a moment.',
    option: ({ pointer }) => (pointer?.startsWith('/tokens/') ? 'The link names a token that this model does not have. '
        + 'Type a text and press Show.' : null),
    length: ({ pointer }) => `The ${inputOf(pointer)} is too long for this model, or empty. Change it, or choose `
        + 'another model.',
    too_large: () => 'The input is larger than this daemon takes. Give a shorter one.',
    answer_too_large: () => 'The input is longer than this daemon can show. Give a shorter one, or a smaller model.',
    memory: ({ pointer }) => (pointer === '/keep'
        ? 'There is no room to keep all maps of this text. Close other pages of the explorer, or give a shorter text.'
        : 'The daemon has too little memory free. Wait, or give a shorter text.'),
    overloaded: () => 'The daemon has much to do. Wait a moment.',
    quota: () => 'Your key has used what it may use for now. Wait a moment.',
    deadline: () => 'This took longer than a request may take here. Give a shorter text, or a smaller model.',
};

/* null: the daemon's own words say it. */
export function adviceFor(fault) {
    return fault.status > 0 && Object.hasOwn(WORDS, fault.code) ? WORDS[fault.code](fault) : null;
}
