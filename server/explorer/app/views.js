// SPDX-License-Identifier: Apache-2.0
/* views.js - the views by name, in the order of their tabs. Each is a component of {state, change, source, onFault,
 * models, openOther}; a new one is a line here, and its name in data/state.js. */
import { Answer } from '../views/answer.js';
import { Compare } from '../views/compare.js';
import { Head } from '../views/head.js';
import { Overview } from '../views/overview.js';
import { Tokens } from '../views/tokens.js';
import { Why } from '../views/why.js';

export const VIEWS = [
    { name: 'overview', title: 'Overview', View: Overview },
    { name: 'answer', title: 'Answer', View: Answer },
    { name: 'head', title: 'One head', View: Head },
    { name: 'tokens', title: 'Tokens', View: Tokens },
    { name: 'why', title: 'Why', View: Why },
    { name: 'compare', title: 'Compare', View: Compare },
];

/* The view of this name, else the first. */
export function viewOf(name) {
    return VIEWS.find((view) => view.name === name) ?? VIEWS[0];
}
