/* html.js - preact with its hooks, and templates in place of JSX. All text in a template is text to the browser. */
import { h } from './preact.js';
import htm from './htm.js';

export { Component, createRef, Fragment, render } from './preact.js';
export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from './preact_hooks.js';
export const html = htm.bind(h);
