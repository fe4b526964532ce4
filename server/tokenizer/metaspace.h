/* metaspace.h - the options of Metaspace, which is a pre-tokenizer and a decoder. */
#ifndef ATTND_METASPACE_H
#define ATTND_METASPACE_H

#include "tokenizer/pipeline.h"

/* Where a replacement is put before a piece that has none at its start. */
enum metaspace_scheme {
    METASPACE_ALWAYS,
    METASPACE_FIRST, /* only at the start of the text */
    METASPACE_NEVER
};

struct metaspace_options {
    char replacement[5]; /* of a space: one character of UTF-8 */
    enum metaspace_scheme scheme;
    bool splits;
};

bool metaspace_options_read(struct pipeline_build *build, const cJSON *node, const char *where,
                            struct metaspace_options *options);

#endif
