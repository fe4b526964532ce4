/* SPDX-License-Identifier: Apache-2.0 */
/* hybrid_model.c - see hybrid_model.h. */
#include "hybrid_model.h"
#include "test.h"

#include "published.h"
#include "word_model.h"

#include <sys/stat.h>

/* The words of word_model.h, and w10 to w39 behind them. */
static void write_tokenizer(FILE *file)
{
    const char *end = strstr(word_model_tokenizer, "}}}");
    assert_non_null(end);
    fprintf(file, "%.*s", (int)(end - word_model_tokenizer), word_model_tokenizer);
    for (int id = 10; id < 40; id++)
        fprintf(file, ",\"w%d\":%d", id, id);
    fputs(end, file);
}

void hybrid_model_make(const char *folder)
{
    char path[256];
    assert_int_equal(mkdir(folder, 0755), 0);
    published_open(LFM2_CONFIG, LFM2_TENSORS, LFM2_LAYERS, "F32");
    published_save(folder, LFM2_CONFIG);
    published_close();
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    write_tokenizer(file);
    fclose(file);
}

void hybrid_model_make_falcon(const char *folder)
{
    published_open(FALCON_CONFIG, FALCON_TENSORS(FALCON_NONE, ""), FALCON_BLOCKS, "F32");
    published_save(folder, FALCON_CONFIG);
    published_close();
}
