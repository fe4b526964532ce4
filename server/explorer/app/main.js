// SPDX-License-Identifier: Apache-2.0
/* main.js - starts the page, in place of what index.html shows until then. A document that has no such place, as of a
 * test, takes modules alone. */
import { html, render } from '../vendor/html.js';
import { createStore } from '../data/state.js';
import { Shell } from './shell.js';

const app = document.getElementById('app');
if (app) {
    app.replaceChildren();
    render(html`<${Shell} store=${createStore()} />`, app);
}
