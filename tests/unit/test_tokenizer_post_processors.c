/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_post_processors.c - the tokens that templates add around a text and its pair, and
 * offsets without spaces.
 *
 * The expected values are those of the reference implementation, tokenizers 0.22.2. */
#include "models/tokenizer/tokenizer_internal.h"
#include "pipeline_case.h"
#include "test.h"

#define BERT_TEMPLATE                                                                              \
    "{`type`:`TemplateProcessing`,`single`:[{`SpecialToken`:{`id`:`[CLS]`,`type_id`:0}},{`S"       \
    "equence`:{`id`:`A`,`type_id`:0}},{`SpecialToken`:{`id`:`[SEP]`,`type_id`:0}}],`pair`:["       \
    "{`SpecialToken`:{`id`:`[CLS]`,`type_id`:0}},{`Sequence`:{`id`:`A`,`type_id`:0}},{`Spec"       \
    "ialToken`:{`id`:`[SEP]`,`type_id`:0}},{`Sequence`:{`id`:`B`,`type_id`:1}},{`SpecialTok"       \
    "en`:{`id`:`[SEP]`,`type_id`:1}}],`special_tokens`:{`[CLS]`:{`id`:`[CLS]`,`ids`:[1],`to"       \
    "kens`:[`[CLS]`]},`[SEP]`:{`id`:`[SEP]`,`ids`:[2,3],`tokens`:[`[SEP]`,`</s>`]}}}"

#define BYTES "{`type`:`ByteLevel`,`add_prefix_space`:false,`trim_offsets`:true,`use_regex`:true}"
#define BYTES_PREFIXED                                                                             \
    "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true,`use_regex`:true}"

struct post_case {
    const char *pre_tokenizer; /* NULL: WhitespaceSplit */
    const char *processor;     /* NULL: none */
    const char *text, *pair;   /* NULL: no pair */
    bool special;
    const char *expected; /* "id/type:start-end " of each token */
};

static const struct post_case CASES[] = {
    { NULL, BERT_TEMPLATE, "a b", "b", true,
      "1/0:0-0 4/0:0-1 5/0:2-3 2/0:0-0 3/0:0-0 5/1:0-1 2/1:0-0 3/1:0-0 " },
    { NULL, BERT_TEMPLATE, "a b", "b", false, "4/0:0-1 5/0:2-3 5/1:0-1 " },
    { NULL, BERT_TEMPLATE, "a", NULL, true, "1/0:0-0 4/0:0-1 2/0:0-0 3/0:0-0 " },
    { NULL, BERT_TEMPLATE, "a", NULL, false, "4/0:0-1 " },
    { NULL, BERT_TEMPLATE, "", "a", true, "1/0:0-0 2/0:0-0 3/0:0-0 4/1:0-1 2/1:0-0 3/1:0-0 " },
    { NULL, BERT_TEMPLATE, "", "a", false, "4/1:0-1 " },
    { NULL,
      "{`type`:`TemplateProcessing`,`single`:[{`Sequence`:{`id`:`A`,`type_id`:3}}],`pair`:[{`"
      "Sequence`:{`id`:`B`,`type_id`:0}},{`Sequence`:{`id`:`A`,`type_id`:1}},{`Sequence`:{`id`:`A`,"
      "`type_id`:2}}],`special_tokens`:{}}",
      "a", "b", true, "5/0:0-1 4/1:0-1 4/2:0-1 " },
    { NULL,
      "{`type`:`TemplateProcessing`,`single`:[{`Sequence`:{`id`:`A`,`type_id`:3}}],`pair`:[{`"
      "Sequence`:{`id`:`B`,`type_id`:0}},{`Sequence`:{`id`:`A`,`type_id`:1}},{`Sequence`:{`id`:`A`,"
      "`type_id`:2}}],`special_tokens`:{}}",
      "a", "b", false, "5/0:0-1 4/1:0-1 4/2:0-1 " },
    { NULL, "{`type`:`BertProcessing`,`sep`:[`[SEP]`,2],`cls`:[`[CLS]`,1]}", "a b", "b", true,
      "1/0:0-0 4/0:0-1 5/0:2-3 2/0:0-0 5/1:0-1 2/1:0-0 " },
    { NULL, "{`type`:`BertProcessing`,`sep`:[`[SEP]`,2],`cls`:[`[CLS]`,1]}", "a b", "b", false,
      "4/0:0-1 5/0:2-3 5/1:0-1 " },
    { NULL, "{`type`:`BertProcessing`,`sep`:[`[SEP]`,2],`cls`:[`[CLS]`,1]}", "a", NULL, true,
      "1/0:0-0 4/0:0-1 2/0:0-0 " },
    { NULL, "{`type`:`BertProcessing`,`sep`:[`[SEP]`,2],`cls`:[`[CLS]`,1]}", "a", NULL, false,
      "4/0:0-1 " },
    { BYTES,
      "{`type`:`RobertaProcessing`,`sep`:[`</"
      "s>`,3],`cls`:[`[CLS]`,1],`trim_offsets`:true,`add_prefix_space`:true}",
      " a b", " b", true, "1/0:0-0 6/0:0-2 7/0:3-4 3/0:0-0 3/0:0-0 7/0:0-2 3/0:0-0 " },
    { BYTES,
      "{`type`:`RobertaProcessing`,`sep`:[`</"
      "s>`,3],`cls`:[`[CLS]`,1],`trim_offsets`:true,`add_prefix_space`:true}",
      " a b", " b", false, "6/0:0-2 7/0:3-4 7/0:0-2 " },
    { BYTES,
      "{`type`:`RobertaProcessing`,`sep`:[`</"
      "s>`,3],`cls`:[`[CLS]`,1],`trim_offsets`:true,`add_prefix_space`:false}",
      " a b", NULL, true, "1/0:0-0 6/0:1-2 7/0:3-4 3/0:0-0 " },
    { BYTES,
      "{`type`:`RobertaProcessing`,`sep`:[`</"
      "s>`,3],`cls`:[`[CLS]`,1],`trim_offsets`:true,`add_prefix_space`:false}",
      " a b", NULL, false, "6/0:1-2 7/0:3-4 " },
    { BYTES_PREFIXED,
      "{`type`:`RobertaProcessing`,`sep`:[`</"
      "s>`,3],`cls`:[`[CLS]`,1],`trim_offsets`:true,`add_prefix_space`:true}",
      "a  b", NULL, true, "1/0:0-0 6/0:0-1 8/0:2-2 7/0:3-4 3/0:0-0 " },
    { BYTES_PREFIXED,
      "{`type`:`RobertaProcessing`,`sep`:[`</"
      "s>`,3],`cls`:[`[CLS]`,1],`trim_offsets`:true,`add_prefix_space`:true}",
      "a  b", NULL, false, "6/0:0-1 8/0:2-2 7/0:3-4 " },
    { BYTES, "{`type`:`ByteLevel`,`add_prefix_space`:false,`trim_offsets`:true}", " a   b  ", NULL,
      true, "6/0:1-2 9/0:4-4 7/0:5-6 9/0:8-8 " },
    { BYTES, "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true}", " a   b  ", " a",
      true, "6/0:0-2 9/0:4-4 7/0:5-6 9/0:8-8 6/1:0-2 " },
    { BYTES, "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:false}", " a b", NULL,
      true, "6/0:0-2 7/0:2-4 " },
    { BYTES,
      "{`type`:`Sequence`,`processors`:[{`type`:`ByteLevel`,`add_prefix_space`:false,`trim_offsets`"
      ":true}," BERT_TEMPLATE "]}",
      " a b", "b", true, "1/0:0-0 6/0:1-2 7/0:3-4 2/0:0-0 3/0:0-0 5/1:0-1 2/1:0-0 3/1:0-0 " },
    { BYTES,
      "{`type`:`Sequence`,`processors`:[{`type`:`ByteLevel`,`add_prefix_space`:false,`trim_offsets`"
      ":true}," BERT_TEMPLATE "]}",
      " a b", "b", false, "6/0:1-2 7/0:3-4 5/1:0-1 " },
    { NULL, "{`type`:`Sequence`,`processors`:[]}", "a b", "b", true, "4/0:0-1 5/0:2-3 5/1:0-1 " },
    { NULL, "{`type`:`Sequence`,`processors`:[]}", "a b", "b", false, "4/0:0-1 5/0:2-3 5/1:0-1 " },
    { NULL, NULL, "a", "b", true, "4/0:0-1 5/1:0-1 " },
};

static bool open_tokenizer(struct tokenizer **tokenizer, const char *pre_tokenizer,
                           const char *processor, struct fault *fault)
{
    static char node[8192];
    struct json_document document;
    snprintf(node, sizeof node,
             "{`pre_tokenizer`:%s,`post_processor`:%s,`added_tokens`:[],`model`:{`type`:"
             "`WordLevel`,`unk_token`:`[UNK]`,`vocab`:{`[UNK]`:0,`[CLS]`:1,`[SEP]`:2,`</s>`:3,"
             "`a`:4,`b`:5,`Ġa`:6,`Ġb`:7,`Ġ`:8,`ĠĠ`:9}}}",
             pre_tokenizer ? pre_tokenizer : "{`type`:`WhitespaceSplit`}",
             processor ? processor : "null");
    char *json = pipeline_case_json(node);
    if (!json_read(&document, json, strlen(json), &(struct json_options){ 0 }, fault))
        fail_msg("%s: %s", json, fault->message);
    free(json);
    *tokenizer = calloc(1, sizeof **tokenizer);
    assert_non_null(*tokenizer);
    arena_init(&(*tokenizer)->arena, SIZE_MAX);
    const bool is_built =
        tokenizer_build(*tokenizer, "tokenizer.json", document.root, &document, fault);
    json_free(&document);
    return is_built;
}

static struct byte_slice slice(const char *text)
{
    return (struct byte_slice){ text, strlen(text) };
}

static void write_tokens(char *out, size_t out_size, const struct token_list *list)
{
    size_t used = 0;
    out[0] = 0;
    for (int64_t i = 0; i < list->count && used < out_size; i++) {
        const struct token *token = &list->tokens[i];
        used += (size_t)snprintf(out + used, out_size - used, "%d/%d:%d-%d ", token->id,
                                 token->type, (int)token->start, (int)token->end);
    }
}

TEST(tokens_are_those_of_the_reference)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct post_case *expected = &CASES[i];
        struct tokenizer *tokenizer;
        struct fault fault = { 0 };
        struct arena arena;
        struct token_list list;
        const struct byte_slice pair = slice(expected->pair ? expected->pair : "");
        char shown[512];
        arena_init(&arena, SIZE_MAX);
        if (!open_tokenizer(&tokenizer, expected->pre_tokenizer, expected->processor, &fault)
            || !tokenizer_encode(tokenizer, NULL, slice(expected->text),
                                 expected->pair ? &pair : NULL, expected->special, &arena, &list,
                                 &fault))
            fail_msg("case %zu: %s", i, fault.message);
        write_tokens(shown, sizeof shown, &list);
        if (strcmp(shown, expected->expected) != 0)
            fail_msg("case %zu, %s: %s; expected %s", i, expected->processor, shown,
                     expected->expected);
        arena_free(&arena);
        tokenizer_free(tokenizer);
    }
}

TEST(which_tokens_are_added)
{
    struct tokenizer *tokenizer;
    struct fault fault = { 0 };
    struct arena arena;
    struct token_list list;
    const struct byte_slice pair = slice("b");
    arena_init(&arena, SIZE_MAX);
    assert_true(open_tokenizer(&tokenizer, NULL, BERT_TEMPLATE, &fault));
    assert_true(tokenizer_encode(tokenizer, NULL, slice("a"), &pair, true, &arena, &list, &fault));
    static const bool special[] = { true, false, true, true, false, true, true };
    assert_int_equal(list.count, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(list.tokens[i].is_special, special[i]);
    assert_int_equal(list.tokens[1].sequence, 0);
    assert_int_equal(list.tokens[4].sequence, 1);
    arena_free(&arena);
    tokenizer_free(tokenizer);
}

static void assert_encode_fault(const char *processor, const char *pair, const char *pointer,
                                const char *part)
{
    struct tokenizer *tokenizer;
    struct fault fault = { 0 };
    struct arena arena;
    struct token_list list;
    const struct byte_slice pair_slice = slice(pair ? pair : "");
    arena_init(&arena, SIZE_MAX);
    if (!open_tokenizer(&tokenizer, NULL, processor, &fault))
        fail_msg("%s", fault.message);
    assert_false(tokenizer_encode(tokenizer, NULL, slice("a"), pair ? &pair_slice : NULL, true,
                                  &arena, &list, &fault));
    assert_string_equal(fault.pointer, pointer);
    if (!strstr(fault.message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, fault.message);
    arena_free(&arena);
    tokenizer_free(tokenizer);
}

#define ONLY_A "[{`Sequence`:{`id`:`A`,`type_id`:0}}]"

TEST(what_a_template_cannot_do)
{
    assert_encode_fault("{`type`:`TemplateProcessing`,`single`:" ONLY_A ",`pair`:null}", "b",
                        "/pair", "takes no pair");
    assert_encode_fault("{`type`:`TemplateProcessing`,`single`:" ONLY_A ",`pair`:[]}", "b", "/pair",
                        "takes no pair");
    assert_encode_fault("{`type`:`TemplateProcessing`,`single`:" ONLY_A ",`pair`:" ONLY_A "}", "b",
                        "/pair", "takes no pair");
    assert_encode_fault("{`type`:`BertProcessing`,`sep`:[`x`,77],`cls`:[`y`,1]}", NULL, "",
                        "the id 77");
    assert_encode_fault("{`type`:`Sequence`,`processors`:[" BERT_TEMPLATE "," BERT_TEMPLATE "]}",
                        NULL, "", "a template behind a template");
}

TEST(wrong_nodes_are_refused)
{
    static const char *const wrong[][2] = {
        { "{`type`:`Processing`}", "'Processing' is not known" },
        { "{`type`:`TemplateProcessing`,`pair`:" ONLY_A "}", "single is missing" },
        { "{`type`:`TemplateProcessing`,`single`:[{`Sequence`:{`id`:`C`,`type_id`:0}}]}", "'C'" },
        { "{`type`:`TemplateProcessing`,`single`:[{`Sequence`:{`id`:`B`,`type_id`:0}}]}",
          "Sequence B" },
        { "{`type`:`TemplateProcessing`,`single`:[{`Sequence`:{`id`:`A`,`type_id`:256}}]}",
          "type_id is 256" },
        { "{`type`:`TemplateProcessing`,`single`:[{`Other`:1}]}", "neither" },
        { "{`type`:`TemplateProcessing`,`single`:[{`SpecialToken`:{`id`:`x`,`type_id`:0}}],"
          "`special_tokens`:{}}",
          "no ids of 'x'" },
        { "{`type`:`TemplateProcessing`,`single`:[{`SpecialToken`:{`id`:`x`,`type_id`:0}}],"
          "`special_tokens`:{`x`:{`ids`:[-1]}}}",
          "no id" },
        { "{`type`:`TemplateProcessing`,`single`:[{`SpecialToken`:{`id`:`x`,`type_id`:0}}],"
          "`special_tokens`:{`x`:{`ids`:[[1]]}}}",
          "no ids of 'x'" },
        { "{`type`:`BertProcessing`,`sep`:[`x`,1]}", "cls" },
        { "{`type`:`BertProcessing`,`sep`:[`x`,1.5],`cls`:[`x`,1]}", "sep" },
        { "{`type`:`RobertaProcessing`,`sep`:[`x`,1],`cls`:[`x`,1]}", "trim_offsets is missing" },
        { "{`type`:`ByteLevel`}", "add_prefix_space is missing" },
        { "{`type`:`Sequence`}", "processors is missing" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pipeline_case step;
        struct step post_processor;
        pipeline_case_open(&step, wrong[i][0]);
        pipeline_case_assert_refused(
            &step, post_processor_read(&step.build, step.node, &post_processor), wrong[i][1]);
        pipeline_case_free(&step);
    }
}
