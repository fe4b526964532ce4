/* config_value.h - numbers, sizes and times as they are typed on a command line. */
#ifndef ATTND_CONFIG_VALUE_H
#define ATTND_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* Each takes the whole text or nothing: no sign, no space, no fraction. False where it is
 * something else or does not fit; *value is then unchanged. */
bool config_value_integer(const char *text, int64_t *value); /* "64" */
bool config_value_size(const char *text, int64_t *bytes);    /* "4096", "16KiB", "64MiB", "1GiB" */
bool config_value_time(const char *text, int64_t *ns);       /* "500ms", "60s"; "0" needs no unit */

/* The place of text in "none|explicit", from 0; -1 where it is not there. */
int config_value_choice(const char *text, const char *choices);

#endif
