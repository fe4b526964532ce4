/* SPDX-License-Identifier: Apache-2.0 */
/* pre_tokenizer.h - the options of Metaspace, which is a pre-tokenizer and a decoder; the pattern
 * of UnicodeScripts. */
#ifndef ATTND_PRE_TOKENIZER_H
#define ATTND_PRE_TOKENIZER_H

#include "models/tokenizer/pipeline.h"

/* Where a replacement is put before a piece that has none at its start. */
enum metaspace_scheme {
    METASPACE_ALWAYS,
    METASPACE_FIRST, /* only at the start of the text */
    METASPACE_NEVER
};

struct metaspace_options {
    struct byte_slice replacement; /* of a space: one character of UTF-8 */
    int scheme;                    /* enum metaspace_scheme */
    bool adds_prefix, splits;
};

/* Members of the row of both. */
#define METASPACE_OPTIONS                                                                          \
    STEP_DEFAULTS(METASPACE_DEFAULTS), .fields = METASPACE_FIELDS,                                 \
                                       .field_count = METASPACE_FIELD_COUNT,                       \
                                       .finish = metaspace_finish

enum { METASPACE_FIELD_COUNT = 4 };
extern const struct metaspace_options METASPACE_DEFAULTS;
extern const struct step_field METASPACE_FIELDS[METASPACE_FIELD_COUNT];
bool metaspace_finish(struct pipeline_build *build, const cJSON *node, const char *where,
                      void *state);

/* Writes an expression whose matches are the runs of one script. */
void scripts_write_pattern(struct text *pattern);

#endif
