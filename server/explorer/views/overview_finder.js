// SPDX-License-Identifier: Apache-2.0
/* overview_finder.js - the head finder of the overview: a button that runs the probe, and then how many heads have each
 * name; what a name says is read by pointing at it, or with the focus. */
import { html, useState } from '../vendor/html.js';
import { plural } from '../data/words.js';
import { bestOf, namesOf, NAMED_FROM, SCORES } from './head_scores.js';
import { shortName } from './head_words.js';

const PROBE = `The probe: 50 random tokens twice, all heads on. A head is named from a score of ${NAMED_FROM} on.`;

/* Whether the model takes the probe, which is made of tokens of its tokenizer; models as of GET /v1/models. */
export function takesProbe(source, models) {
    const model = models?.find(({ name }) => name === source.model);
    return source.kind === 'trace' && Boolean(model?.trace && model.tokenizer);
}

function Found({ score, heads, isChosen, onLook, onSort }) {
    const best = bestOf(heads, score.name);
    const count = heads.filter((entry) => namesOf(entry).some(({ name }) => name === score.name)).length;
    const most = best ? `, most ${best.value.toFixed(2)} (${shortName(best.entry)})` : '';
    return html`<button type="button" aria-pressed=${isChosen ? 'true' : 'false'} data-score=${score.name}
        data-count=${count} data-most=${best?.value} title=${score.says} onPointerEnter=${() => onLook(score)}
        onFocus=${() => onLook(score)} onClick=${() => onSort(isChosen ? 'layer' : score.name)}>
        <b class="name-sign" aria-hidden="true">${score.sign}</b> ${score.of}: ${count === 0 ? 'no head'
            : plural(count, 'head')}${most}</button>`;
}

/* Runs the probe, once for a model. */
export function FindButton({ canFind, finder }) {
    const { scores, isFinding, fault, find } = finder;
    if (scores)
        return null;
    return html`<button type="button" data-find disabled=${!canFind || isFinding} onClick=${find}
            title="Names heads by what they do with a probe, such as induction">Find heads</button>
        <span class="faint" role="status">${isFinding ? 'Running the probe…'
            : canFind ? '' : 'The probe that finds heads is made of tokens by a tokenizer; here is none.'}</span>
        ${fault && html`<span class="field-fault" role="alert" data-code=${fault.code}>${fault.message}</span>`}`;
}

/* What was found. heads: with their scores; sort: that of the overview, which a click on a name sets. */
export function OverviewFinder({ heads, sort, onSort }) {
    const [looked, setLooked] = useState(null);
    return html`<div class="head-finder" role="group" aria-label="Heads found" onPointerLeave=${() => setLooked(null)}
        onFocusOut=${() => setLooked(null)}>
        <div class="row">${SCORES.map((score) => html`<${Found} key=${score.name} ...${{ score, heads, onSort,
            isChosen: sort === score.name, onLook: setLooked }} />`)}</div>
        <p class="score-words faint" role="status">${looked ? looked.says : PROBE}</p>
    </div>`;
}

/* The names of a head behind what it does in words. */
export function HeadNames({ entry }) {
    return namesOf(entry).map(({ name, of, value, says }) => html`${' '}<b class="head-name" key=${name}
        data-score=${name} data-value=${value} title=${says}>${of} ${value.toFixed(2)}</b>`);
}
