/* SPDX-License-Identifier: Apache-2.0 */
/* prompts.h - the texts that a call is about, in the forms of OpenAI: a string, a list of strings,
 * of ids of tokens, or of lists of ids. */
#ifndef ATTND_PROMPTS_H
#define ATTND_PROMPTS_H

#include "base/bytes.h"
#include "fields/field.h"

enum { PROMPTS_MAX = 1024 };

struct prompt {
    struct byte_slice text; /* data NULL: ids came */
    struct byte_slice pair; /* a second text behind it; data NULL: none. Of calls that take pairs */
    const int64_t *ids;
    int64_t id_count;
};

struct prompts {
    struct prompt *list;
    int64_t count; /* 0: the field did not come */
    bool is_list;  /* they are members of a list */
};

/* Reads a field of either form, of at least one member. */
bool prompts_read(struct field_reader *reader, const struct value *value, struct prompts *prompts);

#endif
