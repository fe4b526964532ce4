/* config_options.h - the flags: what there is, not what somebody chose.
 *
 * CONFIG_OPTIONS is the one place where a flag is: its name, what it takes, its
 * bounds, what it is where nobody says anything, its line in --help and the field
 * it sets. Reading, --help and the nearest name of a mistyped flag are made from it. */
#ifndef ATTND_CONFIG_OPTIONS_H
#define ATTND_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_kind {
    CONFIG_TEXT,
    CONFIG_LISTEN,
    CONFIG_INTEGER,
    CONFIG_SIZE,
    CONFIG_TIME,
    CONFIG_CHOICE, /* value lists them, "none|explicit"; the field gets its place from 0 */
    CONFIG_SWITCH,
    CONFIG_PRINTS,    /* --help, --version: no variable, no field */
    CONFIG_NOT_BUILT, /* in the contract, not in this build */
};

struct config_option {
    const char *name; /* without the dashes */
    enum config_kind kind;
    const char *value;   /* what --help calls it; "" where it takes none */
    const char *initial; /* as it would be typed; NULL: zero, and help says what that means */
    const char *help;
    size_t field_offset, field_bytes; /* in struct config */
    int64_t min, max;                 /* of integers, bytes and nanoseconds */
};

extern const struct config_option CONFIG_OPTIONS[];
extern const int CONFIG_OPTION_COUNT;

/* NULL where there is none of that name, of length bytes. */
const struct config_option *config_option_find(const char *name, size_t length);

/* The one of this build that somebody may have meant, NULL where none is near. */
const struct config_option *config_option_nearest(const char *name);

/* Whether --help or -h is among the arguments, of the daemon or another command. */
bool config_help_asked(char **argv);

/* --help, to stdout. */
void config_options_print(void);

#endif
