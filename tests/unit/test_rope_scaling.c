/* SPDX-License-Identifier: Apache-2.0 */
/* test_rope_scaling.c - how fast pairs turn in well-known checkpoints, and what is refused.
 *
 * The numbers were computed in double by another program from the published formulas: f =
 * theta^(-2c/dim), then the branches on wavelengths of Llama 3.1's reference implementation and the
 * ramp between floor and ceil of dim ln(L / (2 pi turns)) / (2 ln theta) of YaRN's. */
#include "rope.h"
#include "test.h"

struct number {
    int64_t pair;
    double frequency;
};

struct checkpoint {
    const char *name;
    struct attn_rope rope;
    double length;
    double attention_factor;
    struct number numbers[13]; /* up to the first of frequency 0 */
};

#define TRAINED(f, l) .factor = f, .original_max_position_embeddings = l
#define LLAMA         .type = ATTN_ROPE_LLAMA3, .low_freq_factor = 1, .high_freq_factor = 4
#define YARN          .type = ATTN_ROPE_YARN, .beta_fast = 32, .beta_slow = 1

static const struct checkpoint CHECKPOINTS[] = {
    { "linear",
      { .dim = 128, .theta = 1e4, .scaling = { .type = ATTN_ROPE_LINEAR, .factor = 4 } },
      0,
      1,
      { { 0, 0.25 },
        { 1, 0.21649108084001634 },
        { 31, 0.0028869549617236453 },
        { 63, 2.8869549617236455e-05 } } },
    { "dynamic, longer than trained for",
      { .dim = 128, .theta = 1e4, .scaling = { .type = ATTN_ROPE_DYNAMIC, TRAINED(2, 2048) } },
      5000,
      1,
      { { 0, 1 },
        { 1, 0.84751709999158908 },
        { 31, 0.0059238295756713988 },
        { 63, 2.9740863992002145e-05 } } },
    { "dynamic, as long as trained for",
      { .dim = 128, .theta = 1e4, .scaling = { .type = ATTN_ROPE_DYNAMIC, TRAINED(2, 2048) } },
      2048,
      1,
      { { 0, 1 }, { 1, 0.86596432336006535 }, { 63, 0.00011547819846894582 } } },
    { "Llama 3.1 8B",
      { .dim = 128, .theta = 5e5, .scaling = { LLAMA, TRAINED(8, 8192) } },
      0,
      1,
      { { 0, 1 },
        { 20, 0.016560440080994446 },
        { 28, 0.0032114459947525909 },
        { 29, 0.0021665707635033591 },
        { 30, 0.0013718935677611381 },
        { 31, 0.00085675141291963208 },
        { 32, 0.00052484616099295468 },
        { 33, 0.00031269375038406517 },
        { 34, 0.00017850781276799641 },
        { 35, 9.5562123539646833e-05 },
        { 36, 7.7846552739324498e-05 },
        { 63, 3.0689259889145111e-07 } } },
    { "Llama 3.2 1B",
      { .dim = 64, .theta = 5e5, .scaling = { LLAMA, TRAINED(32, 8192) } },
      0,
      1,
      { { 14, 0.0032114459947525909 },
        { 15, 0.001290547928209264 },
        { 16, 0.00042955679655936815 },
        { 17, 9.7082878026276702e-05 },
        { 18, 1.9461638184831125e-05 },
        { 31, 9.41830672543491e-08 } } },
    { "Qwen 2.5 with YaRN",
      { .dim = 128, .theta = 1e6, .scaling = { YARN, TRAINED(4, 32768), .truncate = true } },
      0,
      1.138629436111989,
      { { 0, 1 },
        { 22, 0.0086596432336006543 },
        { 23, 0.0069783058485986633 },
        { 30, 0.0010643609812470019 },
        { 40, 4.4456985250973067e-05 },
        { 41, 3.5825314255924068e-05 },
        { 63, 3.1023444018792988e-07 } } },
    { "DeepSeek-V3",
      { .dim = 64,
        .theta = 1e4,
        .scaling = { YARN, TRAINED(40, 4096), .truncate = true, .mscale = 1,
                     .mscale_all_dim = 1 } },
      0,
      1,
      { { 0, 1 },
        { 10, 0.056234132519034911 },
        { 11, 0.039006926567143857 },
        { 15, 0.0083345089510207769 },
        { 22, 0.00017782794100389219 },
        { 23, 3.3338035804083099e-05 },
        { 31, 3.3338035804083097e-06 } } },
    { "mscale beside another mscale_all_dim",
      { .dim = 64,
        .theta = 1e4,
        .scaling = { YARN, TRAINED(40, 4096), .truncate = true, .mscale = 0.707,
                     .mscale_all_dim = 1 } },
      0,
      0.9210423553163399,
      { { 0, 1 } } },
    { "gpt-oss",
      { .dim = 64, .theta = 150000, .scaling = { YARN, TRAINED(32, 4096) } },
      0,
      1.3465735902799727,
      { { 0, 1 },
        { 8, 0.050813274815461475 },
        { 9, 0.031705696184663769 },
        { 12, 0.0067949594897322189 },
        { 17, 0.00012931870124506319 },
        { 18, 3.8308812373753384e-05 },
        { 31, 3.0235114281192144e-07 } } },
    { "gpt-oss, truncated",
      { .dim = 64, .theta = 150000, .scaling = { YARN, TRAINED(32, 4096), .truncate = true } },
      0,
      1.3465735902799727,
      { { 9, 0.031620752275346484 },
        { 12, 0.0070157139105043878 },
        { 17, 0.00022794779579512524 } } },
    { "a step in place of a ramp",
      { .dim = 64,
        .theta = 1e4,
        .scaling = { .type = ATTN_ROPE_YARN, TRAINED(40, 4096), .beta_fast = 4, .beta_slow = 4 } },
      0,
      1.3688879454113936,
      { { 16, 0.01 },
        { 17, 0.0074989420933245579 },
        { 18, 0.00014058533129758727 },
        { 19, 0.00010542412585714557 } } },
    { "of one pair",
      { .dim = 2, .theta = 1e4, .scaling = { .type = ATTN_ROPE_DYNAMIC, TRAINED(2, 8) } },
      1000,
      1,
      { { 0, 1 } } },
};

TEST(checkpoints)
{
    for (size_t i = 0; i < sizeof CHECKPOINTS / sizeof CHECKPOINTS[0]; i++) {
        const struct checkpoint *c = &CHECKPOINTS[i];
        const double factor = attn_rope_attention_factor(&c->rope);
        assert_int_equal(attn_rope_check(&c->rope, c->rope.dim, NULL), ATTN_OK);
        if (!(fabs(factor - c->attention_factor) <= 1e-15 * factor))
            fail_msg("%s: attention factor %.17g, want %.17g", c->name, factor,
                     c->attention_factor);
        for (const struct number *n = c->numbers; n->frequency != 0; n++) {
            const double got = attn_rope_frequency(&c->rope, n->pair, c->length);
            if (!(fabs(got - n->frequency) <= 1e-14 * n->frequency))
                fail_msg("%s: pair %d turns by %.17g, want %.17g", c->name, (int)n->pair, got,
                         n->frequency);
        }
    }
}

/* Cosines and sines at position 1 000 000. A frequency in float32 would make their second digit
 * wrong. */
TEST(far_position)
{
    static const struct {
        int checkpoint;
        int64_t pair;
        double cosine, sine;
    } FAR[] = {
        { 3, 1, -0.63498135484581497, 0.77252746164662212 },
        { 3, 15, 0.082887509173546856, 0.99655890986082962 },
        { 3, 31, -0.6189575913105928, 0.78542440766695631 },
        { 6, 1, -0.68551407418468568, 0.72805937539098642 },
        { 6, 15, -0.99071751438639399, 0.1359367745977714 },
        { 6, 31, -0.98158428214733651, -0.19102957111740099 },
    };
    for (size_t i = 0; i < sizeof FAR / sizeof FAR[0]; i++) {
        const struct attn_rope *rope = &CHECKPOINTS[FAR[i].checkpoint].rope;
        float row[128] = { 0 };
        row[FAR[i].pair] = 1;
        const struct attn_rope_rows rows = { .data = row,
                                             .row_stride = 128,
                                             .row_count = 1,
                                             .heads = 1,
                                             .head_dim = rope->dim,
                                             .first_position = 1e6 };
        attn_rope_rotate(rope, &rows);
        assert_true(fabs((double)row[FAR[i].pair] - FAR[i].cosine) <= 3e-8);
        assert_true(fabs((double)row[FAR[i].pair + rope->dim / 2] - FAR[i].sine) <= 3e-8);
    }
}

TEST(defaults)
{
    const struct attn_rope_scaling s = attn_rope_scaling_default(ATTN_ROPE_YARN);
    assert_true(s.type == ATTN_ROPE_YARN && s.beta_fast == 32 && s.beta_slow == 1 && s.truncate);
    assert_true(s.low_freq_factor == 1 && s.high_freq_factor == 4 && s.attention_factor == 0);
}

struct refused {
    const char *where;
    struct attn_rope rope;
};

#define REFUSED(name, ...)                                                                         \
    {                                                                                              \
        "layer.rope.scaling." name,                                                                \
        {                                                                                          \
            .dim = 8, .theta = 1e4, .scaling = { __VA_ARGS__ }                                     \
        }                                                                                          \
    }
#define LINEAR .type = ATTN_ROPE_LINEAR

static const double ONES[] = { 1, 1, 1, 1 }, WRONG[] = { 1, 1, 1, 0 };
#define LONGROPE .type = ATTN_ROPE_LONGROPE, .short_factor = ONES

static const struct refused REFUSALS[] = {
    REFUSED("factor", LINEAR, .factor = 0.5),
    REFUSED("factor", LINEAR, .factor = NAN),
    REFUSED("factor", LINEAR, .factor = INFINITY),
    REFUSED("factor", YARN, TRAINED(0, 8)),
    REFUSED("type", .type = (enum attn_rope_type)9, TRAINED(2, 8)),
    REFUSED("original_max_position_embeddings", .type = ATTN_ROPE_DYNAMIC, .factor = 2),
    REFUSED("original_max_position_embeddings", YARN, TRAINED(2, 0.5)),
    REFUSED("original_max_position_embeddings", LLAMA, TRAINED(2, NAN)),
    REFUSED("low_freq_factor", .type = ATTN_ROPE_LLAMA3, TRAINED(2, 8), .high_freq_factor = 1),
    REFUSED("high_freq_factor", .type = ATTN_ROPE_LLAMA3, TRAINED(2, 8), .low_freq_factor = 4,
            .high_freq_factor = 4),
    REFUSED("beta_slow", .type = ATTN_ROPE_YARN, TRAINED(2, 8), .beta_fast = 32),
    REFUSED("beta_fast", .type = ATTN_ROPE_YARN, TRAINED(2, 8), .beta_slow = 2, .beta_fast = 1),
    REFUSED("attention_factor", YARN, TRAINED(2, 8), .attention_factor = -1),
    REFUSED("mscale", YARN, TRAINED(2, 8), .mscale = -1),
    REFUSED("mscale_all_dim", YARN, TRAINED(2, 8), .mscale_all_dim = HUGE_VAL),
    REFUSED("factor", LONGROPE, TRAINED(0.5, 8), .long_factor = ONES),
    REFUSED("long_factor", LONGROPE, TRAINED(2, 8), .long_factor = WRONG),
    REFUSED("short_factor", .type = ATTN_ROPE_LONGROPE, TRAINED(2, 8), .long_factor = ONES,
            .short_factor = WRONG),
    REFUSED("attention_factor", LONGROPE, TRAINED(2, 8), .long_factor = ONES,
            .attention_factor = NAN),
    REFUSED("original_max_position_embeddings", LONGROPE, TRAINED(2, 1), .long_factor = ONES),
    REFUSED("original_max_position_embeddings", LONGROPE, .factor = 2, .long_factor = ONES),
    { "layer.rope.theta", { .dim = 8, .theta = 1, .scaling = { YARN, TRAINED(2, 8) } } },
    { "layer.rope.theta", { .dim = 8, .theta = 0 } },
    { "layer.rope.dim", { .dim = 10, .theta = 1 } },
    { "layer.rope.dim", { .dim = 3, .theta = 1 } },
    { "layer.rope.dim", { .dim = -2, .theta = 1 } },
    { "layer.rope.dim", { .dim = 6, .theta = 1, .grid = { 0, 2, 3 } } },
    { "layer.rope.pairs", { .dim = 8, .theta = 1, .pairs = -1 } },
    { "layer.rope.pairs", { .dim = 8, .theta = 1, .pairs = 5 } },
    { "layer.rope.grid.height", { .dim = 8, .theta = 1, .grid = { 0, -1, 3 } } },
    { "layer.rope.grid.width", { .dim = 8, .theta = 1, .grid = { 0, 2, 0 } } },
    { "layer.rope.grid.width", { .dim = 8, .theta = 1, .grid = { 0, 0, 2 } } },
    { "layer.rope.grid.first", { .dim = 8, .theta = 1, .grid = { -1, 2, 2 } } },
    { "layer.rope.scaling.type",
      { .dim = 8, .theta = 1, .scaling = { ATTN_ROPE_LINEAR, .factor = 2 }, .grid = { 0, 2, 2 } } },
    { "layer.rope.query_growth", { .dim = 8, .theta = 1, .query_growth = -0.5 } },
    { "layer.rope.query_length", { .dim = 8, .theta = 1, .query_growth = 0.5 } },
    { "layer.rope.query_length", { .dim = 0, .query_growth = 0.5 } },
    { "layer.rope.query_offset",
      { .dim = 8, .theta = 1, .query_growth = 0.5, .query_length = 1, .query_offset = -1 } },
};

TEST(refused)
{
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        const char *where = "";
        assert_int_equal(attn_rope_check(&REFUSALS[i].rope, 8, &where), ATTN_ERR_OPTION);
        assert_string_equal(where, REFUSALS[i].where);
    }
    const char *where = "";
    struct attn_rope half = { .dim = 8, .theta = 1, .scaling = { LONGROPE, TRAINED(2, 8) } };
    assert_int_equal(attn_rope_check(&half, 8, &where), ATTN_ERR_NO_DATA);
    assert_string_equal(where, "layer.rope.scaling.long_factor");
    half.scaling.short_factor = NULL;
    assert_int_equal(attn_rope_check(&half, 8, &where), ATTN_ERR_NO_DATA);
    assert_string_equal(where, "layer.rope.scaling.short_factor");
    const struct attn_rope absent = { .scaling = { YARN } };
    assert_int_equal(attn_rope_check(&absent, 8, NULL), ATTN_OK);
}
