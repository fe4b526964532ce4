/* SPDX-License-Identifier: Apache-2.0 */
/* browser_input.h - a person's hands: keys, the mouse and its wheel, as events that the page
 * trusts. */
#ifndef BROWSER_INPUT_H
#define BROWSER_INPUT_H

#include "browser.h"

/* Keys without a character, as WebDriver numbers them. */
#define KEY_BACKSPACE "\uE003"
#define KEY_TAB       "\uE004"
#define KEY_ENTER     "\uE007"
#define KEY_SHIFT     "\uE008"
#define KEY_CONTROL   "\uE009"
#define KEY_ESCAPE    "\uE00C"
#define KEY_PAGE_UP   "\uE00E"
#define KEY_PAGE_DOWN "\uE00F"
#define KEY_END       "\uE010"
#define KEY_HOME      "\uE011"
#define KEY_LEFT      "\uE012"
#define KEY_UP        "\uE013"
#define KEY_RIGHT     "\uE014"
#define KEY_DOWN      "\uE015"

/* Presses one key after the other, whatever has the focus; the second while another is held. */
void browser_keys(struct browser *browser, const char *keys);
void browser_keys_with(struct browser *browser, const char *held, const char *keys);

/* The element that a CSS selector finds first: a click in its middle; text typed into it after all
 * that is there; a file for a field of files. */
void browser_click(struct browser *browser, const char *selector);
void browser_type(struct browser *browser, const char *selector, const char *text);
void browser_give_file(struct browser *browser, const char *selector, const char *path);

/* The mouse, in CSS pixels from the upper left corner of the page that is seen. */
void browser_move(struct browser *browser, double x, double y);
void browser_press(struct browser *browser, double x, double y);
void browser_drag(struct browser *browser, double x, double y, double to_x, double to_y);

/* Positive: down. */
void browser_wheel(struct browser *browser, double x, double y, double pixels);

#endif
