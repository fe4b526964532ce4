// SPDX-License-Identifier: Apache-2.0
/* fault.js - a fault: what a person can do about it, the daemon's own words, and the buttons: ask again, wait until
 * there is room, give a key. */
import { Component, html, useEffect, useState } from '../vendor/html.js';
import { hasKey, setKey } from '../data/api.js';
import { plural } from '../data/words.js';
import { adviceFor } from './fault_words.js';

/* Where the daemon has keys. The key is held in memory until the page is left, and nowhere else. */
function KeyField({ onAgain }) {
    const [value, setValue] = useState('');
    const send = (event) => {
        event.preventDefault();
        setKey(value.trim());
        onAgain();
    };
    return html`
        <form class="key" onSubmit=${send}>
            <label>Key
                <input type="password" name="key" autocomplete="off" required value=${value}
                    onInput=${(event) => setValue(event.target.value)} />
            </label>
            <button class="main">Use this key</button>
            <span class="faint">It is kept in memory until you leave the page: in no address and no storage.</span>
        </form>`;
}

/* Asks again when the time has passed that the daemon named. */
function Waiting({ seconds, onAgain }) {
    const [left, setLeft] = useState(seconds);
    useEffect(() => {
        if (left === null)
            return undefined;
        const timer = setTimeout(() => (left <= 1 ? onAgain() : setLeft(left - 1)), 1000);
        return () => clearTimeout(timer);
    }, [left]);
    if (left === null)
        return null;
    return html`
        <span>Asking again in ${plural(left, 'second')}.</span>
        <button onClick=${() => setLeft(null)}>Do not wait</button>`;
}

const WAITS = [429, 503];

/* Whether another key may help: none was sent, or one that is not known, or may not do this. */
const wantsKey = ({ status, code }) => status === 401 || (status === 403 && code === 'scope' && hasKey());

export function Fault({ fault, onAgain, onClose }) {
    const waits = WAITS.includes(fault.status) && fault.retryAfter !== null && fault.retryAfter <= 600;
    const advice = adviceFor(fault);
    return html`
        <div class="fault" role="alert" data-status=${fault.status} data-code=${fault.code}>
            ${advice && html`<p>${advice}</p>`}
            <p class=${advice ? 'said' : ''}>${advice && 'The daemon says: '}${fault.message}
                ${fault.pointer && html` <span class="pointer">at ${fault.pointer}</span>`}
                ${fault.status > 0 && html` <span class="pointer">(${fault.status} ${fault.code})</span>`}</p>
            ${wantsKey(fault) ? html`<${KeyField} onAgain=${onAgain} />` : html`
                <div class="row">
                    ${waits && html`<${Waiting} seconds=${Math.max(1, fault.retryAfter)} onAgain=${onAgain} />`}
                    <button onClick=${onAgain}>Try again</button>
                    <button onClick=${onClose}>Close</button>
                </div>`}
        </div>`;
}

/* Keeps the frame where a view fails, and says so. */
export class Boundary extends Component {
    constructor() {
        super();
        this.state = { error: null };
    }

    componentDidCatch(error) {
        console.error(error);
        this.setState({ error });
    }

    render({ children }, { error }) {
        if (error === null)
            return children;
        return html`
            <div class="fault" role="alert">
                <p>This view failed, by a mistake of the page: ${String(error.message ?? error)}</p>
                <button onClick=${() => this.setState({ error: null })}>Show it again</button>
            </div>`;
    }
}
