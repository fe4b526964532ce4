/* SPDX-License-Identifier: Apache-2.0 */
/* config_options.h - the table of all flags.
 *
 * CONFIG_OPTIONS is the one place where a flag is written: its name, the kind of its value, its
 * bounds, its default, its line in --help and the field of struct config that it sets. Reading,
 * --help and the suggestion for a mistyped flag all come from this table. */
#ifndef ATTND_CONFIG_OPTIONS_H
#define ATTND_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_kind {
    CONFIG_TEXT,
    CONFIG_LISTEN, /* a list of addresses; may be repeated, and a variable takes commas */
    CONFIG_LIST,   /* a list of texts, in the same way */
    CONFIG_ORIGIN, /* a list of web pages' origins, in the same way, */
    CONFIG_HOST,   /* and one of hosts' names */
    CONFIG_INTEGER,
    CONFIG_SIZE,
    CONFIG_TIME,
    CONFIG_MODE,   /* of a file, octal */
    CONFIG_CHOICE, /* value lists the choices, "none|explicit"; the field gets the index of one */
    CONFIG_SWITCH,
    CONFIG_PRINTS, /* --help, --version: no variable, no field */
    CONFIG_GROUP,  /* no flag: help is the title of the group that the rows behind it are in */
};

struct config_option {
    const char *name; /* without the dashes */
    enum config_kind kind;
    const char *value;   /* what --help calls the value; "" where the flag takes none */
    const char *initial; /* the default, as a user would type it; NULL: zero, which help explains */
    const char *help;
    size_t field_offset, field_bytes; /* in struct config */
    int64_t min, max;                 /* of integers, bytes and nanoseconds */
};

extern const struct config_option CONFIG_OPTIONS[];
extern const int CONFIG_OPTION_COUNT;

/* Whether the row is a flag, not the title of a group. */
bool config_option_is_shown(const struct config_option *option);

/* The option whose name is the length bytes at name, or NULL. */
const struct config_option *config_option_find(const char *name, size_t length);

/* The option that a mistyped name may have meant; NULL where none is near. */
const struct config_option *config_option_nearest(const char *name);

/* Whether --help or -h is among the arguments, of the daemon or another command. */
bool config_help_asked(char **argv);

/* Prints the flags of one group, by its title, as --help does. */
void config_options_print_group(const char *title);

/* Prints --help to stdout. */
void config_options_print(void);

#endif
