/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_sentencepiece.c - a tokenizer.model of any bytes is taken or refused, and what is taken
 * becomes a tokenizer.json that can be read. */
#include "models/tokenizer/legacy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void fill(struct legacy *legacy)
{
    struct text text;
    struct json_document document;
    const struct json_options options = { .nul_is_kept = true, .values_max = 1 << 24 };
    struct fault fault;
    text_init(&text, 1 << 26);
    if (legacy_read_sentencepiece(legacy) && legacy_read_added(legacy)
        && legacy_write(legacy, &text)) {
        if (json_read(&document, text.data, text.used, &options, &fault))
            json_free(&document);
        else if (fault.code != FAULT_DUPLICATE) /* two pieces of one text */
            abort();
    }
    text_free(&text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct fault fault = { 0 };
    struct legacy legacy = { .fault = &fault };
    legacy.class = legacy_class_find("tokenizer.model", &legacy.config, &fault);
    legacy.vocabulary_file = malloc(size + 1);
    legacy.vocabulary_size = size;
    if (!legacy.class || !legacy.vocabulary_file)
        abort();
    memcpy(legacy.vocabulary_file, data, size);
    arena_init(&legacy.arena, SIZE_MAX);
    fill(&legacy);
    legacy_free(&legacy);
    return 0;
}
