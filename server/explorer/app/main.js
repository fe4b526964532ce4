/* main.js - starts the page. */
import { html, render } from '../vendor/html.js';
import { createStore } from '../data/state.js';
import { Shell } from './shell.js';

render(html`<${Shell} store=${createStore()} />`, document.getElementById('app'));
