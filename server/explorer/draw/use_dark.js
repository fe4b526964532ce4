// SPDX-License-Identifier: Apache-2.0
/* use_dark.js - whether the ground is dark, as a hook. */
import { useEffect, useState } from '../vendor/html.js';
import { isDark, onThemeChange } from './theme.js';

/** Drawn anew when light becomes dark or back. */
export function useDark() {
    const [dark, setDark] = useState(isDark());
    useEffect(() => onThemeChange(() => setDark(isDark())), []);
    return dark;
}
