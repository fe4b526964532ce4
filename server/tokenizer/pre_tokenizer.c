/* pre_tokenizer.c - the types of pre-tokenizers, and Sequence, which runs several in order. */
#include "tokenizer/pre_tokenizer_types.h"
#include "tokenizer/split.h"

struct sequence {
    struct pre_tokenizer *steps;
    int64_t count;
};

static bool sequence_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct sequence *sequence = state;
    for (int64_t i = 0; i < sequence->count; i++)
        if (!sequence->steps[i].pre_tokenize(sequence->steps[i].state, pieces, fault))
            return false;
    return true;
}

static bool sequence_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    const cJSON *list = pipeline_array(build, node, "pre_tokenizer Sequence", "pretokenizers"),
                *item;
    struct sequence *sequence = list ? pipeline_alloc(build, 1, sizeof *sequence) : NULL;
    if (!sequence)
        return false;
    sequence->steps =
        pipeline_alloc(build, (size_t)cJSON_GetArraySize(list), sizeof *sequence->steps);
    if (!sequence->steps)
        return false;
    cJSON_ArrayForEach(
        item, list) if (!pre_tokenizer_read(build, item,
                                            &sequence->steps[sequence->count++])) return false;
    *(struct pre_tokenizer *)step = (struct pre_tokenizer){ sequence_run, sequence };
    return true;
}

bool pre_tokenizer_read(struct pipeline_build *build, const cJSON *node, struct pre_tokenizer *step)
{
    static const struct pipeline_type types[] = {
        { "Sequence", sequence_read },     { "BertPreTokenizer", bert_pre_tokenizer_read },
        { "ByteLevel", byte_level_read },  { "CharDelimiterSplit", delimiter_read },
        { "Digits", digits_read },         { "FixedLength", fixed_length_read },
        { "Metaspace", metaspace_read },   { "Punctuation", punctuation_read },
        { "Split", split_read },           { "UnicodeScripts", scripts_read },
        { "Whitespace", whitespace_read }, { "WhitespaceSplit", whitespace_split_read },
    };
    return pipeline_read(build, node, "pre_tokenizer", NULL, types, sizeof types / sizeof *types,
                         step);
}
