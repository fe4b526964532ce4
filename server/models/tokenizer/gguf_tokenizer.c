/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tokenizer.c - a tokenizer from the metadata of a GGUF file. */
#include "models/tokenizer/gguf_tokenizer.h"

#include "models/tokenizer/tokenizer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- models -- */

enum role { BOS, EOS, UNK, SEP, CLS, MASK, ROLE_COUNT };

/* The separator's key is spelled so. padding_token_id is not here: nothing pads a text, and
 * published files have ids there that no token has. */
static const struct {
    const char *key, *name;
} ROLES[ROLE_COUNT] = {
    [BOS] = { GGUF_TOKENIZER "bos_token_id", "bos_token" },
    [EOS] = { GGUF_TOKENIZER "eos_token_id", "eos_token" },
    [UNK] = { GGUF_TOKENIZER "unknown_token_id", "unk_token" },
    [SEP] = { GGUF_TOKENIZER "seperator_token_id", "sep_token" },
    [CLS] = { GGUF_TOKENIZER "cls_token_id", "cls_token" },
    [MASK] = { GGUF_TOKENIZER "mask_token_id", "mask_token" },
};

/* Flags that a file may leave out. The second name is that of the class's text. */
enum flag {
    ADD_BOS,
    ADD_EOS,
    ADD_SEP,
    ADD_PREFIX,
    REMOVE_SPACES,
    LOWERCASE,
    STRIP_ACCENTS,
    FLAG_COUNT
};

static const struct {
    const char *key, *name;
} FLAGS[FLAG_COUNT] = {
    [ADD_BOS] = { GGUF_TOKENIZER "add_bos_token", "add_bos_token" },
    [ADD_EOS] = { GGUF_TOKENIZER "add_eos_token", "add_eos_token" },
    [ADD_SEP] = { GGUF_TOKENIZER "add_sep_token", "add_sep_token" },
    [ADD_PREFIX] = { GGUF_TOKENIZER "add_space_prefix", "add_prefix_space" },
    [REMOVE_SPACES] = { GGUF_TOKENIZER "remove_extra_whitespaces", "remove_extra_whitespaces" },
    [LOWERCASE] = { GGUF_TOKENIZER "normalizer.lowercase", "do_lower_case" },
    [STRIP_ACCENTS] = { GGUF_TOKENIZER "normalizer.strip_accents", "strip_accents" },
};

/* What rows have in common: templates, and texts of a tokenizer.json, both as legacy_write.c reads
 * them. A text has no vocabulary and no merges, which go another way. */
#define SINGLE   "add_bos_token?bos_token:0 $A:0 add_eos_token?eos_token:0"
#define PAIR     SINGLE " add_bos_token?bos_token:1 $B:1 add_eos_token?eos_token:1"
#define SEP_PAIR SINGLE " add_sep_token?sep_token:0 $B:0 add_eos_token?eos_token:0"

#define SENTENCEPIECE_TEXT(model)                                                                  \
    "{`added_tokens`:@added,`normalizer`:@sentencepiece:normalizer,"                               \
    "`pre_tokenizer`:@sentencepiece:pre_tokenizer,`model`:{" model                                 \
    ",`byte_fallback`:@flag:byte_fallback},"                                                       \
    "`post_processor`:@template,`decoder`:@sentencepiece:decoder}"

#define BYTE_LEVEL_TEXT(post_processor)                                                            \
    "{`added_tokens`:@added,`normalizer`:@normalizer,`pre_tokenizer`:@pre,"                        \
    "`model`:{`type`:`BPE`,`ignore_merges`:@flag:ignore_merges},"                                  \
    "`post_processor`:" post_processor ",`decoder`:{`type`:`ByteLevel`,"                           \
    "`add_prefix_space`:true,`trim_offsets`:true,`use_regex`:true}}"

static const char ROBERTA_TEXT[] =
    BYTE_LEVEL_TEXT("{`type`:`RobertaProcessing`,`sep`:@entry:eos_token,`cls`:@entry:bos_token,"
                    "`trim_offsets`:true,`add_prefix_space`:false}");

static const char TEXT_BPE_TEXT[] =
    "{`added_tokens`:@added,`normalizer`:@normalizer,`pre_tokenizer`:@pre,"
    "`model`:{`type`:`BPE`,`fuse_unk`:true,`byte_fallback`:@flag:byte_fallback,"
    "`unk_token`:@optional:unk_token},`post_processor`:@template,"
    "`decoder`:{`type`:`Sequence`,`decoders`:[{`type`:`Replace`,`pattern`:{`String`:"
    "`\xE2\x96\x81`},`content`:` `},{`type`:`ByteFallback`},{`type`:`Fuse`}]}}";

enum lists { FILE_MERGES, SCORE_MERGES, SCORES, TOKENS };

static const struct gguf_model {
    const char *name; /* tokenizer.ggml.model */
    enum gguf_spelling spelling;
    enum lists lists;        /* what it needs beside its tokens */
    const char *pre;         /* where it has one; "": the file says it */
    int64_t ids[ROLE_COUNT]; /* where the file does not say; -1: none */
    bool flags[FLAG_COUNT];
    struct legacy_class class;
} MODELS[] = {
    { .name = "llama",
      .lists = SCORE_MERGES,
      .ids = { 1, 2, 0, -1, -1, -1 },
      .flags = { [ADD_BOS] = true, [ADD_PREFIX] = true },
      .class = { .single = SINGLE,
                 .pair = PAIR,
                 .text = SENTENCEPIECE_TEXT("`type`:`BPE`,`fuse_unk`:true,"
                                            "`unk_token`:@optional:unk_token") } },
    { .name = "gpt2",
      .lists = FILE_MERGES,
      .pre = "",
      .ids = { -1, -1, -1, -1, -1, -1 },
      .class = { .single = SINGLE, .pair = PAIR, .text = BYTE_LEVEL_TEXT("@template") } },
    { .name = "gemma4",
      .lists = FILE_MERGES,
      .pre = "gemma4",
      .ids = { -1, -1, -1, -1, -1, -1 },
      .class = { .single = SINGLE, .pair = PAIR, .text = TEXT_BPE_TEXT } },
    { .name = "bert",
      .spelling = GGUF_PHANTOM_SPACE,
      .lists = TOKENS,
      .ids = { 101, -1, 100, 102, -1, 103 },
      .flags = { [LOWERCASE] = true, [STRIP_ACCENTS] = true },
      .class = { .single = "cls_token:0 $A:0 sep_token:0",
                 .pair = "cls_token:0 $A:0 sep_token:0 $B:1 sep_token:1",
                 .text = "{`added_tokens`:@added,`normalizer`:{`type`:`BertNormalizer`,"
                         "`clean_text`:true,`handle_chinese_chars`:true,"
                         "`strip_accents`:@flag:strip_accents,`lowercase`:@flag:do_lower_case},"
                         "`pre_tokenizer`:{`type`:`BertPreTokenizer`},`model`:{`type`:`WordPiece`,"
                         "`unk_token`:@token:unk_token,`continuing_subword_prefix`:`##`,"
                         "`max_input_chars_per_word`:100},`post_processor`:@template,"
                         "`decoder`:{`type`:`WordPiece`,`prefix`:`##`,`cleanup`:true}}" } },
    { .name = "t5",
      .lists = SCORES,
      .ids = { -1, 1, 2, -1, -1, -1 },
      .flags = { [ADD_EOS] = true },
      .class = { .single = SINGLE,
                 .pair = SEP_PAIR,
                 .text = SENTENCEPIECE_TEXT("`type`:`Unigram`,`unk_id`:@unknown") } },
};

/* ------------------------------------------------------------------ values -- */

struct reading {
    struct gguf_tokens tokens;
    const struct gguf_model *model;
    int64_t ids[ROLE_COUNT];
    bool flags[FLAG_COUNT], is_said[FLAG_COUNT];
    bool has_bytes; /* tokens of single bytes */
};

/* The text of a key; data is NULL where the file has none. */
static bool read_text(const struct gguf *file, const char *key, struct byte_slice *text,
                      struct fault *fault)
{
    const struct gguf_value *value = gguf_find(file, key);
    const char *data = NULL;
    *text = (struct byte_slice){ NULL, 0 };
    if (value && !gguf_text(value, &data, &text->size))
        return fault_set(fault, FAULT_TYPE, "%s is %s; expected a string", key,
                         gguf_type_name(value));
    text->data = data;
    return true;
}

static bool read_id(const struct gguf *file, const char *key, int64_t count, int64_t *id,
                    struct fault *fault)
{
    const struct gguf_value *value = gguf_find(file, key);
    if (!value)
        return true;
    if (!gguf_integer(value, id))
        return fault_set(fault, FAULT_TYPE, "%s is %s; expected an id", key, gguf_type_name(value));
    return (*id >= 0 && *id < count)
           || fault_set(fault, FAULT_FIELD, "%s is %" PRId64 "; the file has %" PRId64 " tokens",
                        key, *id, count);
}

static bool read_ids(struct reading *reading)
{
    struct legacy *legacy = reading->tokens.legacy;
    const int64_t count = legacy->sentencepiece.piece_count;
    for (int role = 0; role < ROLE_COUNT; role++) {
        int64_t *id = &reading->ids[role];
        *id = reading->model->ids[role] < count ? reading->model->ids[role] : -1;
        if (!read_id(reading->tokens.file, ROLES[role].key, count, id, legacy->fault))
            return false;
    }
    /* llama.cpp puts the first one before a text, and BERT's converter writes both. */
    if (reading->ids[CLS] < 0 || gguf_find(reading->tokens.file, ROLES[BOS].key))
        reading->ids[CLS] = reading->ids[BOS];
    legacy->unknown_id = reading->ids[UNK];
    return true;
}

static bool read_flags(struct reading *reading)
{
    struct fault *fault = reading->tokens.legacy->fault;
    for (int flag = 0; flag < FLAG_COUNT; flag++) {
        const struct gguf_value *value = gguf_find(reading->tokens.file, FLAGS[flag].key);
        reading->is_said[flag] = value != NULL;
        if (!value)
            reading->flags[flag] = reading->model->flags[flag];
        else if (!gguf_flag(value, &reading->flags[flag]))
            return fault_set(fault, FAULT_TYPE, "%s is %s; expected a bool", FLAGS[flag].key,
                             gguf_type_name(value));
    }
    if (!reading->is_said[STRIP_ACCENTS])
        reading->flags[STRIP_ACCENTS] = reading->flags[LOWERCASE];
    return true;
}

/* What the pre-tokenizer's name says, where the file says no more. */
static bool read_pre(struct reading *reading)
{
    struct legacy *legacy = reading->tokens.legacy;
    struct byte_slice name;
    if (!reading->model->pre)
        return true;
    if (!read_text(reading->tokens.file, GGUF_TOKENIZER "pre", &name, legacy->fault))
        return false;
    if (reading->model->pre[0])
        name = (struct byte_slice){ reading->model->pre, strlen(reading->model->pre) };
    else if (!name.data || name.size == 0)
        name = (struct byte_slice){ "default", 7 };
    legacy->pre = gguf_pre_find(name.data, name.size);
    if (!legacy->pre)
        return fault_set(legacy->fault, FAULT_OPTION,
                         GGUF_TOKENIZER "pre is '%.*s', a pre-tokenizer that is not known here",
                         name.size < 60 ? (int)name.size : 60, (const char *)name.data);
    if (!reading->is_said[ADD_BOS])
        reading->flags[ADD_BOS] = legacy->pre->adds_bos;
    if (!reading->is_said[ADD_SEP])
        reading->flags[ADD_SEP] = legacy->pre->adds_sep;
    return true;
}

static bool check_added(const struct reading *reading)
{
    static const struct {
        enum flag flag;
        enum role role;
    } NEEDS[] = { { ADD_BOS, BOS }, { ADD_EOS, EOS }, { ADD_SEP, SEP } };
    for (int i = 0; i < 3; i++)
        if (reading->flags[NEEDS[i].flag] && reading->ids[NEEDS[i].role] < 0)
            return fault_set(reading->tokens.legacy->fault, FAULT_FIELD,
                             "%s is true, and there is no %s", FLAGS[NEEDS[i].flag].key,
                             ROLES[NEEDS[i].role].key);
    return true;
}

/* ------------------------------------------------------------------- config -- */

/* Writes the roles and the flags as a tokenizer_config.json, by which the class's text is filled.
 */
static bool make_config(struct reading *reading)
{
    struct legacy *legacy = reading->tokens.legacy;
    struct text text;
    text_init(&text, SIZE_MAX);
    text_format(&text, "{\"byte_fallback\":%s,\"ignore_merges\":%s",
                reading->has_bytes ? "true" : "false",
                legacy->pre && legacy->pre->ignores_merges ? "true" : "false");
    for (int role = 0; role < ROLE_COUNT; role++) {
        const struct byte_slice token = vocabulary_text(&legacy->vocabulary, reading->ids[role]);
        if (!token.data)
            continue;
        text_raw(&text, ",");
        text_key(&text, ROLES[role].name);
        text_string_bytes(&text, token.data, token.size);
    }
    for (int flag = 0; flag < FLAG_COUNT; flag++)
        text_format(&text, ",\"%s\":%s", FLAGS[flag].name, reading->flags[flag] ? "true" : "false");
    text_raw(&text, "}");
    const bool good = text_finish(&text, legacy->fault)
                      && json_read(&legacy->config.tokenizer, text.data, text.used,
                                   &(struct json_options){ 0 }, legacy->fault);
    text_free(&text);
    return good;
}

static void set_sentencepiece(struct reading *reading)
{
    struct legacy *legacy = reading->tokens.legacy;
    struct sentencepiece *model = &legacy->sentencepiece;
    for (int64_t id = 0; id < model->piece_count; id++)
        reading->has_bytes |= model->pieces[id].type == SENTENCEPIECE_BYTE;
    model->byte_fallback = reading->has_bytes;
    model->splits_at_whitespace = model->escapes_whitespaces = true;
    model->adds_prefix = reading->flags[ADD_PREFIX];
    model->removes_extra_whitespaces = reading->flags[REMOVE_SPACES];
}

/* Whether the name of the model has a word, in letters of any case. */
static bool is_named(const struct gguf *file, const char *word)
{
    const struct gguf_value *value = gguf_find(file, "general.name");
    const char *name;
    size_t size;
    return value && gguf_text(value, &name, &size) && strcasestr(name, word);
}

static bool is_among(const char *text, const char *const *names, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(names[i], text) != 0)
        i++;
    return i < count;
}

/* Which tokens take the white space beside them. No metadata say it: llama.cpp knows Phi-3 by its
 * name too. */
static void set_spaces(struct reading *reading)
{
    static const char *const WITHOUT[] = { "<unk>", "<s>", "<|endoftext|>" };
    struct legacy *legacy = reading->tokens.legacy;
    const struct gguf *file = reading->tokens.file;
    const bool is_phi = is_named(file, "phi-3") || is_named(file, "phi3");
    for (int64_t i = 0; i < legacy->added_count; i++) {
        struct legacy_added *added = &legacy->added[i];
        added->lstrip =
            legacy->pre && legacy->pre->mask_takes_space && added->id == reading->ids[MASK];
        added->rstrip = is_phi && !is_among(added->text, WITHOUT, sizeof WITHOUT / sizeof *WITHOUT);
    }
}

/* -------------------------------------------------------------------- lists -- */

static double lowest_score(const struct legacy *legacy)
{
    double lowest = INFINITY;
    for (int64_t id = 0; id < legacy->sentencepiece.piece_count; id++)
        if (legacy->sentencepiece.pieces[id].type == SENTENCEPIECE_NORMAL)
            lowest = fmin(lowest, legacy->scores[id]);
    return isfinite(lowest) ? lowest : 0;
}

static bool read_lists(struct reading *reading, struct model_lists *lists,
                       struct model_merge **merges)
{
    struct legacy *legacy = reading->tokens.legacy;
    const enum lists needed = reading->model->lists;
    lists->vocabulary = &legacy->vocabulary;
    if ((needed == SCORES || needed == SCORE_MERGES)
        && !gguf_find(reading->tokens.file, GGUF_TOKENIZER "scores"))
        return fault_set(legacy->fault, FAULT_FIELD, GGUF_TOKENIZER "scores is missing");
    if (needed == FILE_MERGES && !gguf_merges_read(&reading->tokens, merges, &lists->merge_count))
        return false;
    if (needed == SCORE_MERGES
        && !(*merges = legacy_sentencepiece_merges(legacy, &lists->merge_count)))
        return false;
    lists->merges = *merges;
    if (needed == SCORES) {
        lists->scores = legacy->scores;
        lists->lowest_score = lowest_score(legacy);
        return gguf_charsmap_read(&reading->tokens, &legacy->sentencepiece.charsmap);
    }
    return true;
}

static bool read_all(struct reading *reading)
{
    if (!gguf_tokens_read(&reading->tokens) || !read_ids(reading) || !read_flags(reading)
        || !read_pre(reading) || !check_added(reading))
        return false;
    set_sentencepiece(reading);
    set_spaces(reading);
    return make_config(reading);
}

/* --------------------------------------------------------------------- file -- */

static struct legacy_class class_of(const struct reading *reading)
{
    const struct gguf_pre *pre = reading->tokens.legacy->pre;
    struct legacy_class class = reading->model->class;
    class.defaults = "";
    if (pre && pre->is_text)
        class.text = TEXT_BPE_TEXT;
    else if (pre && pre->adds_sep && reading->flags[ADD_BOS] && reading->flags[ADD_EOS])
        class.text = ROBERTA_TEXT;
    return class;
}

static bool build(struct tokenizer *tokenizer, struct reading *reading, const char *name)
{
    struct legacy *legacy = reading->tokens.legacy;
    struct model_merge *merges = NULL;
    struct model_lists lists = { 0 };
    if (!read_all(reading))
        return false;
    const struct legacy_class class = class_of(reading);
    legacy->class = &class;
    const bool good = read_lists(reading, &lists, &merges)
                      && tokenizer_build_legacy(tokenizer, legacy, name, &lists);
    legacy->class = NULL;
    free(merges);
    return good;
}

/* The row of the model that a file names; NULL: the fault is set where it names another. */
static const struct gguf_model *find_model(const struct gguf *file, struct fault *fault)
{
    struct byte_slice name;
    if (!read_text(file, GGUF_TOKENIZER "model", &name, fault) || !name.data)
        return NULL;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        if (strlen(MODELS[i].name) == name.size
            && memcmp(MODELS[i].name, name.data, name.size) == 0)
            return &MODELS[i];
    if ((name.size == 4 && memcmp(name.data, "none", 4) == 0)
        || (name.size == 8 && memcmp(name.data, "no_vocab", 8) == 0))
        return NULL;
    fault_set(fault, FAULT_OPTION,
              GGUF_TOKENIZER
              "model is '%.*s', which is not known here; known: llama, gpt2, gemma4, "
              "bert, t5",
              name.size < 60 ? (int)name.size : 60, (const char *)name.data);
    return NULL;
}

bool tokenizer_open_gguf(struct tokenizer **tokenizer, const struct gguf *file, const char *name,
                         struct fault *fault)
{
    *tokenizer = NULL;
    *fault = (struct fault){ .code = FAULT_NONE };
    const struct gguf_model *model = find_model(file, fault);
    if (!model)
        return fault->code == FAULT_NONE || tokenizer_name_file(fault, name);
    struct tokenizer *made = tokenizer_new();
    const char *kept = made ? arena_strdup(&made->arena, name) : NULL;
    if (!kept) {
        tokenizer_free(made);
        return fault_no_memory(fault);
    }
    struct legacy legacy = { .fault = fault };
    arena_init(&legacy.arena, SIZE_MAX);
    struct reading reading = {
        .tokens = { .file = file, .legacy = &legacy, .spelling = model->spelling },
        .model = model,
    };
    const bool good = build(made, &reading, kept);
    legacy_free(&legacy);
    if (good)
        *tokenizer = made;
    else
        tokenizer_free(made);
    return good || tokenizer_name_file(fault, name);
}
