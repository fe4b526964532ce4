// SPDX-License-Identifier: Apache-2.0
/* theme.js - the colours of style/theme.css for what is drawn on a canvas, followed as they
 * change. */

const NAMES = ['ground', 'panel', 'line', 'ink', 'faint', 'accent', 'mark', 'hatch-line'];

/** The colours as an element has them, and its font at a size in CSS pixels. */
export function themeOf(element, textSize) {
    const style = getComputedStyle(element);
    const colours = NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
    const theme = Object.fromEntries(colours);
    return { ...theme, isDark: isDark(), fixed: '#ff8c3a', font: `${textSize}px ${style.fontFamily}` };
}

const DARK = '(prefers-color-scheme: dark)';

/** Whether the ground is dark. */
export function isDark() {
    return matchMedia(DARK).matches;
}

/** Calls when light becomes dark or back; gives the end of it. */
export function onThemeChange(call) {
    const dark = matchMedia(DARK);
    dark.addEventListener('change', call);
    return () => dark.removeEventListener('change', call);
}
