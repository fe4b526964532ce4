/* fuzz_sentencepiece.c - a tokenizer.model of any bytes is taken or refused, and what is taken
 * becomes a tokenizer.json that can be read. */
#include "tokenizer/older.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void fill(struct older *older)
{
    struct text text;
    struct json_document document;
    const struct json_options options = { .nul_is_kept = true, .values_max = 1 << 24 };
    struct fault fault;
    text_init(&text, 1 << 26);
    if (older_read_sentencepiece(older) && older_read_added(older) && older_fill(older, &text)) {
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
    struct older older = { .fault = &fault };
    older.class = older_class_find("tokenizer.model", &older.config, &fault);
    older.vocabulary_file = malloc(size + 1);
    older.vocabulary_size = size;
    if (!older.class || !older.vocabulary_file)
        abort();
    memcpy(older.vocabulary_file, data, size);
    arena_init(&older.arena, SIZE_MAX);
    fill(&older);
    older_free(&older);
    return 0;
}
