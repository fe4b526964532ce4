/* SPDX-License-Identifier: Apache-2.0 */
/* config_value.h - numbers, sizes and times as they are typed on a command line. */
#ifndef ATTND_CONFIG_VALUE_H
#define ATTND_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* Each reads the whole text: digits and a unit, without sign or space. False where the
 * text is anything else or the number does not fit; *value is then unchanged. */
bool config_value_integer(const char *text, int64_t *value); /* "64" */
bool config_value_decimal(const char *text, double *value);  /* "2", "0.5"; to 6 places */
bool config_value_size(const char *text, int64_t *bytes);    /* "4096", "16KiB", "64MiB", "1GiB" */
bool config_value_mode(const char *text, int64_t *mode);     /* octal: "0660", "660", up to 0777 */
bool config_value_time(const char *text, int64_t *ns); /* "500ms", "60s", "5m", "1h"; "0" needs
                                                          no unit */

/* Write a value as it is typed: in the largest of their units that leaves no rest;
 * of the units of times these are h, s and ms. */
enum { CONFIG_VALUE_SHOWN = 32 };
void config_value_show_size(char text[CONFIG_VALUE_SHOWN], int64_t bytes);
void config_value_show_time(char text[CONFIG_VALUE_SHOWN], int64_t ns);

/* The index of text among choices such as "none|explicit"; -1 where it is not there. */
int config_value_choice(const char *text, const char *choices);

#endif
