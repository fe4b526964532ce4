/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_rope.c - the rotary embedding in the config of a model: fields that are read,
 * fields that are left out, and the messages of what is refused. */
#include "fault_expect.h"
#include "models/model/model_config.h"
#include "test.h"

#define SCALING "/config/rope/scaling"

static bool read_rope(struct model_config *config, const char *rope, struct fault *fault)
{
    char text[512];
    const int length = snprintf(text, sizeof text, JSON({"rope":%s}), rope);
    assert_in_range(length, 1, (int)sizeof text - 1);
    return model_config_read(config, text, (size_t)length, fault);
}

struct read_case {
    const char *rope;
    struct attn_rope want;
};

/* The values are in the order of the structs. A field that is not given has the value that the
 * papers recommend. */
static const struct read_case READ[] = {
    { "{\"scaling\":{\"rope_type\":\"default\"}}",
      { 0, 1e4, false,
        .scaling = { ATTN_ROPE_DEFAULT, 0, 0, 1, 4, 32, 1, true, 0, 0, 0, NULL, NULL } } },
    { "{\"scaling\":{\"rope_type\":\"linear\",\"factor\":2.5},\"theta\":5e5,\"dim\":4}",
      { 4, 5e5, false,
        .scaling = { ATTN_ROPE_LINEAR, 2.5, 0, 1, 4, 32, 1, true, 0, 0, 0, NULL, NULL } } },
    { "{\"scaling\":{\"original_max_position_embeddings\":2048,\"factor\":1,"
      "\"rope_type\":\"dynamic\"}}",
      { 0, 1e4, false,
        .scaling = { ATTN_ROPE_DYNAMIC, 1, 2048, 1, 4, 32, 1, true, 0, 0, 0, NULL, NULL } } },
    { "{\"scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":2,"
      "\"high_freq_factor\":5,\"original_max_position_embeddings\":8192},\"interleaved\":true}",
      { 0, 1e4, true,
        .scaling = { ATTN_ROPE_LLAMA3, 8, 8192, 2, 5, 32, 1, true, 0, 0, 0, NULL, NULL } } },
    { "{\"scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
      "\"original_max_position_embeddings\":32768}}",
      { 0, 1e4, false,
        .scaling = { ATTN_ROPE_YARN, 4, 32768, 1, 4, 32, 1, true, 0, 0, 0, NULL, NULL } } },
    { "{\"scaling\":{\"rope_type\":\"yarn\",\"factor\":40,\"beta_fast\":30,\"beta_slow\":2,"
      "\"mscale\":0.7,\"mscale_all_dim\":0,\"attention_factor\":1.5,\"truncate\":false,"
      "\"original_max_position_embeddings\":4096}}",
      { 0, 1e4, false,
        .scaling = { ATTN_ROPE_YARN, 40, 4096, 1, 4, 30, 2, false, 1.5, 0.7, 0, NULL, NULL } } },
    { "{\"scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"attention_factor\":null,"
      "\"beta_fast\":null,\"mscale\":null,\"original_max_position_embeddings\":32768}}",
      { 0, 1e4, false,
        .scaling = { ATTN_ROPE_YARN, 4, 32768, 1, 4, 32, 1, true, 0, 0, 0, NULL, NULL } } },
};

static bool same(const struct attn_rope *a, const struct attn_rope *b)
{
    const struct attn_rope_scaling *s = &a->scaling, *t = &b->scaling;
    return a->dim == b->dim && a->theta == b->theta && a->interleaved == b->interleaved
           && s->type == t->type && s->factor == t->factor
           && s->original_max_position_embeddings == t->original_max_position_embeddings
           && s->low_freq_factor == t->low_freq_factor && s->high_freq_factor == t->high_freq_factor
           && s->beta_fast == t->beta_fast && s->beta_slow == t->beta_slow
           && s->truncate == t->truncate && s->attention_factor == t->attention_factor
           && s->mscale == t->mscale && s->mscale_all_dim == t->mscale_all_dim;
}

TEST(read)
{
    for (size_t i = 0; i < sizeof READ / sizeof READ[0]; i++) {
        struct model_config config;
        struct fault fault;
        if (!read_rope(&config, READ[i].rope, &fault))
            fail_msg("%s: %s", READ[i].rope, fault.message);
        assert_true(config.has_rope);
        if (!same(&config.rope, &READ[i].want))
            fail_msg("%s was read as something else", READ[i].rope);
        assert_int_equal(attn_rope_check(&config.rope, 8, NULL), ATTN_OK);
        model_config_free(&config);
    }
}

#define LONGROPE                                                                                   \
    "{\"scaling\":{\"rope_type\":\"longrope\",\"original_max_position_embeddings\":4096,"

TEST(longrope)
{
    struct model_config config;
    struct fault fault;
    if (!read_rope(&config,
                   "{\"scaling\":{\"short_factor\":[1,1.5],\"long_factor\":[2,30],\"factor\":32,"
                   "\"original_max_position_embeddings\":4096,\"rope_type\":\"longrope\"}}",
                   &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(config.rope.scaling.type, ATTN_ROPE_LONGROPE);
    assert_true(config.rope.scaling.factor == 32);
    assert_true(config.rope_factor_counts[0] == 2 && config.rope_factor_counts[1] == 2);
    assert_true(config.rope_factors[0][0] == 1 && config.rope_factors[0][1] == 1.5);
    assert_true(config.rope_factors[1][0] == 2 && config.rope_factors[1][1] == 30);
    model_config_free(&config);

    /* No pair has so many columns. */
    static char text[8192];
    size_t used = (size_t)sprintf(text, "{\"rope\":" LONGROPE "\"short_factor\":[1");
    for (int i = 0; i < MODEL_ROPE_PAIRS_MAX; i++)
        used += (size_t)sprintf(text + used, ",1");
    used += (size_t)sprintf(text + used, "]}}}");
    assert_false(model_config_read(&config, text, used, &fault));
    assert_int_equal(fault.code, FAULT_SHAPE);
}

TEST(none)
{
    static const struct attn_rope_scaling NONE = { .type = ATTN_ROPE_DEFAULT };
    struct model_config config;
    struct fault fault;
    assert_true(read_rope(&config, "null", &fault));
    assert_false(config.has_rope);
    model_config_free(&config);
    assert_true(read_rope(&config, JSON({"scaling":null}), &fault));
    assert_true(config.has_rope);
    assert_memory_equal(&config.rope.scaling, &NONE, sizeof NONE);
    model_config_free(&config);
}

struct refused_case {
    const char *rope;
    enum fault_code code;
    const char *words, *pointer;
};

#define LINEAR  "{\"scaling\":{\"rope_type\":\"linear\","
#define DYNAMIC "{\"scaling\":{\"rope_type\":\"dynamic\",\"factor\":2,"
#define LLAMA3                                                                                     \
    "{\"scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"                                         \
    "\"original_max_position_embeddings\":8192,"
#define YARN                                                                                       \
    "{\"scaling\":{\"rope_type\":\"yarn\",\"factor\":8,\"original_max_position_embeddings\":8192,"

static const struct refused_case REFUSED[] = {
    { "{\"scalings\":null}", FAULT_FIELD, "did you mean 'scaling'", "/config/rope/scalings" },
    { "{\"scaling\":2}", FAULT_TYPE, "scaling is a number; expected an object", SCALING },
    { "{\"scaling\":{}}", FAULT_FIELD,
      "rope_type is missing; expected default, linear, dynamic, yarn, llama3 or longrope",
      SCALING },
    { "{\"scaling\":{\"rope_type\":3}}", FAULT_TYPE, "expected a string", SCALING "/rope_type" },
    { "{\"scaling\":{\"rope_type\":\"Yarn\"}}", FAULT_OPTION,
      "rope_type is 'Yarn'; expected default, linear, dynamic, yarn, llama3 or longrope",
      SCALING "/rope_type" },
    { "{\"scaling\":{\"rope_type\":\"default\",\"factor\":2}}", FAULT_FIELD,
      "a scaling of rope_type default has no field 'factor'", SCALING "/factor" },
    { LINEAR "\"factr\":2}}", FAULT_FIELD, "did you mean 'factor'", SCALING "/factr" },
    { LINEAR "\"beta_fast\":32}}", FAULT_FIELD, "rope_type linear has no field 'beta_fast'",
      SCALING "/beta_fast" },
    { LINEAR "\"truncate\":true}}", FAULT_FIELD, "has no field 'truncate'", SCALING "/truncate" },
    { "{\"scaling\":{\"rope_type\":\"linear\"}}", FAULT_FIELD,
      "factor is missing; rope_type linear needs it", SCALING },
    { LINEAR "\"factor\":0.5}}", FAULT_OPTION, "factor is 0.5; expected a number of at least 1",
      SCALING "/factor" },
    { LINEAR "\"factor\":null}}", FAULT_TYPE, "factor is null; expected a number",
      SCALING "/factor" },
    { LINEAR "\"factor\":\"2\"}}", FAULT_TYPE, "factor is a string", SCALING "/factor" },
    { DYNAMIC "\"original_max_position_embeddings\":0}}", FAULT_OPTION, "of at least 1",
      SCALING "/original_max_position_embeddings" },
    { "{\"scaling\":{\"rope_type\":\"dynamic\",\"factor\":2}}", FAULT_FIELD,
      "original_max_position_embeddings is missing; rope_type dynamic needs it", SCALING },
    { LLAMA3 "\"low_freq_factor\":1}}", FAULT_FIELD, "high_freq_factor is missing", SCALING },
    { LLAMA3 "\"low_freq_factor\":0,\"high_freq_factor\":4}}", FAULT_OPTION,
      "low_freq_factor is 0; expected a number above 0", SCALING "/low_freq_factor" },
    { LLAMA3 "\"low_freq_factor\":4,\"high_freq_factor\":4}}", FAULT_OPTION,
      "high_freq_factor is 4; expected a number above low_freq_factor, which is 4",
      SCALING "/high_freq_factor" },
    { YARN "\"beta_fast\":1,\"beta_slow\":2}}", FAULT_OPTION,
      "beta_fast is 1; expected a number of at least beta_slow, which is 2", SCALING "/beta_fast" },
    { YARN "\"attention_factor\":1e39}}", FAULT_OPTION, "the attention factor is 1e+39",
      "/config/rope/scaling" },
    { YARN "\"attention_factor\":0}}", FAULT_OPTION, "expected a number above 0",
      SCALING "/attention_factor" },
    { YARN "\"mscale\":-1}}", FAULT_OPTION, "of at least 0", SCALING "/mscale" },
    { YARN "\"mscale_all_dims\":1}}", FAULT_FIELD, "did you mean 'mscale_all_dim'",
      SCALING "/mscale_all_dims" },
    { YARN "\"truncate\":1}}", FAULT_TYPE, "expected true or false", SCALING "/truncate" },
    { YARN "\"truncat\":1}}", FAULT_FIELD, "did you mean 'truncate'", SCALING "/truncat" },
    { YARN "\"beta_slow\":1},\"theta\":1}", FAULT_OPTION, "theta is 1; expected a number above 1",
      "/config/rope/theta" },
    { LONGROPE "\"short_factor\":[1,2]}}", FAULT_FIELD,
      "long_factor is missing; rope_type longrope needs it", SCALING },
    { LONGROPE "\"short_factor\":2}}", FAULT_TYPE, "short_factor is a number; expected a list",
      SCALING "/short_factor" },
    { LONGROPE "\"short_factor\":[]}}", FAULT_SHAPE, "short_factor has 0 numbers; expected one",
      SCALING "/short_factor" },
    { LONGROPE "\"long_factor\":[1,\"2\"]}}", FAULT_TYPE, "expected a list of numbers",
      SCALING "/long_factor" },
    { LONGROPE "\"long_factor\":[1,null]}}", FAULT_TYPE, "expected a list of numbers",
      SCALING "/long_factor" },
    { LONGROPE "\"long_factor\":[[1],[2]]}}", FAULT_TYPE, "expected a list of numbers",
      SCALING "/long_factor" },
    { LONGROPE "\"long_factor\":[1,1e99]}}", FAULT_NONFINITE,
      "long_factor has a number beyond the range", SCALING "/long_factor" },
    { LONGROPE "\"long_factor\":[1,0]}}", FAULT_OPTION,
      "long_factor has 0; expected finite numbers above 0", SCALING "/long_factor" },
    { LONGROPE "\"longfactor\":[1]}}", FAULT_FIELD, "did you mean 'long_factor'",
      SCALING "/longfactor" },
    { YARN "\"long_factor\":[1]}}", FAULT_FIELD, "rope_type yarn has no field 'long_factor'",
      SCALING "/long_factor" },
    { "{\"scaling\":{\"rope_type\":\"longrope\",\"factor\":2,\"short_factor\":[1],"
      "\"long_factor\":[2],\"original_max_position_embeddings\":1}}",
      FAULT_OPTION, "original_max_position_embeddings is 1; expected a number above 1",
      SCALING "/original_max_position_embeddings" },
};

TEST(refused)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        struct model_config config;
        struct fault fault = { 0 };
        if (read_rope(&config, REFUSED[i].rope, &fault))
            fail_msg("%s was taken", REFUSED[i].rope);
        fault_expect(REFUSED[i].rope, &fault, REFUSED[i].code, REFUSED[i].words,
                     REFUSED[i].pointer);
    }
}
