/* SPDX-License-Identifier: Apache-2.0 */
/* The table of whole passes: shares of what a machine can do, where the rest goes, its lines. */
#include "../bench/traffic_pass.h"
#include "test.h"

/* ---------------------------------------------------------------------------- of peak -- */

/* 240 and 60 operations; FMA makes 10 a second, sums of bytes 40, tiles 120. */
static const struct pass_peaks PEAKS = { .flops = 10, .dots = 40, .tiles = 120, .read = 8 };

static void expect_least(double wanted_s, const char *kernels, const char *type, bool is_one_row)
{
    const struct pass_work work = {
        .product_flops = 240, .attention_flops = 60, .type = type, .is_one_row = is_one_row
    };
    assert_float_equal(pass_least_s(&work, &PEAKS, kernels, 1), wanted_s, 1e-9);
    assert_float_equal(pass_least_s(&work, &PEAKS, kernels, 2), wanted_s / 2, 1e-9);
}

TEST(floats_need_multiply_adds)
{
    static const char *const TYPES[] = { "F32", "F16", "BF16" };
    for (int i = 0; i < 3; i++) {
        expect_least(30, "avx512", TYPES[i], false);
        expect_least(30, "avx512_bf16", TYPES[i], true);
        expect_least(30, "avx2", TYPES[i], false);
    }
    expect_least(30, "avx512", "Q8_0", false); /* blocks become floats here */
}

TEST(blocks_need_three_digits_of_bytes)
{
    expect_least(240 * 3 / 40.0 + 6, "avx512_vnni", "Q8_0", false);
    expect_least(240 * 3 / 40.0 + 6, "avx512_bf16", "Q8_0", false);
    expect_least(240 * 3 / 40.0 + 6, "avx512_bf16", "Q4_K", true);
    expect_least(240 * 3 / 40.0 + 6, "amx", "Q4_K", true);
}

TEST(tiles_multiply_parts_of_floats)
{
    const double attention_s = 60 * 6 / 120.0;
    expect_least(240 * 3 / 120.0 + attention_s, "amx", "Q8_0", false);
    expect_least(240 * 3 / 120.0 + attention_s, "amx", "BF16", false);
    expect_least(240 * 5 / 120.0 + attention_s, "amx", "F16", false);
    expect_least(240 * 5 / 120.0 + 6, "amx", "F16", true); /* attention of one row is by vectors */
    expect_least(24 + attention_s, "amx", "F32", false);
}

/* Where the unit is not there, the table's name alone changes nothing. */
TEST(no_unit)
{
    const struct pass_peaks peaks = { .flops = 10 };
    const struct pass_work work = { .product_flops = 240, .attention_flops = 60, .type = "Q8_0" };
    assert_float_equal(pass_least_s(&work, &peaks, "amx", 1), 30, 1e-9);
}

/* ---------------------------------------------------------------- where the rest goes -- */

TEST(shares_are_of_the_time_of_all_threads)
{
    static const double WANTED[PASS_SHARE_COUNT] = { 0.5, 0.1, 0.05, 0.05, 0, 0.05, 0.05, 0.2 };
    const struct pass_spent spent = { 10, 8, { 10, 2, 1, 1, 0, 1 } };
    double shares[PASS_SHARE_COUNT], sum = 0;
    pass_shares(&spent, 2, shares);
    for (int i = 0; i < PASS_SHARE_COUNT; i++) {
        assert_float_equal(shares[i], WANTED[i], 1e-9);
        sum += shares[i];
    }
    assert_float_equal(sum, 1, 1e-9);
}

/* The connection's thread may help a worker: then more threads compute than wait. */
TEST(nobody_waits_less_than_not_at_all)
{
    const struct pass_spent spent = { 10, 10, { 12 } };
    double shares[PASS_SHARE_COUNT];
    pass_shares(&spent, 1, shares);
    assert_float_equal(shares[0], 1.2, 1e-9);
    assert_float_equal(shares[PASS_PART_COUNT], 0, 0);
    assert_float_equal(shares[PASS_PART_COUNT + 1], 0, 0);
}

/* ------------------------------------------------------------------------------ lines -- */

static struct pass_row a_row(void)
{
    return (struct pass_row){ .name = "bert, 1 x 512 tokens, 2 threads",
                              .peer = "onnxruntime",
                              .threads = 2,
                              .work = { .tokens = 512,
                                        .product_flops = 8,
                                        .attention_flops = 2,
                                        .bytes = 4,
                                        .type = "F32" },
                              .rounds = 3,
                              .own_s = { 1.02, 1, 0.98 },
                              .peer_s = { 1.53, 1.5, 1.47 },
                              .peaks = { PEAKS, PEAKS, PEAKS },
                              .spent = { 3, 2.7, { 4.2, 0.6, 0, 0.3, 0, 0 } },
                              .busy = { 8.9, 9 },
                              .kernels = "avx512" };
}

static int columns(const char *line)
{
    int count = 0;
    for (; *line && *line != '\n'; line++)
        count += *line == '|';
    return count;
}

/* Writes the row and returns its line, which the caller frees. */
static char *line_of(struct pass_row *row, double *ratio)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    *ratio = pass_write_row(to, row);
    fclose(to);
    return text;
}

TEST(a_line_of_the_table)
{
    struct pass_row row = a_row();
    double ratio;
    char *line = line_of(&row, &ratio);
    assert_string_equal(line,
                        "| bert, 1 x 512 tokens, 2 threads            |      512.0 (  2%) |"
                        "         onnxruntime 1.50 |    0.50 |    0.50 | 70.0% | 10.0% | 0.0% | "
                        "5.0% | 0.0% | 0.0% | 5.0% | 10.0% | 0% |\n");
    assert_float_equal(ratio, 1.5, 1e-9);
    free(line);
}

TEST(heading_and_lines_have_the_same_columns)
{
    struct pass_row row = a_row();
    char *heading;
    size_t size;
    double ratio;
    FILE *to = open_memstream(&heading, &size);
    pass_write_heading(to);
    fclose(to);
    char *line = line_of(&row, &ratio);
    const char *first = heading + 1; /* behind an empty line */
    assert_int_equal(columns(first), columns(line));
    assert_int_equal(columns(strchr(first, '\n') + 1), columns(line));
    free(heading);
    free(line);
}

static void expect_beside(struct pass_row row, const char *wanted)
{
    double ratio;
    char *line = line_of(&row, &ratio);
    if (!strstr(line, wanted))
        fail_msg("no \"%s\" in %s", wanted, line);
    assert_float_equal(ratio, 0, 0);
    free(line);
}

TEST(a_line_without_a_ratio)
{
    struct pass_row row = a_row();
    row.peer = NULL;
    expect_beside(row, "|                       -  |");
    row = a_row();
    row.busy.cpu_s = 3;
    expect_beside(row, "| onnxruntime not busy: 33% CPU |");
    row = a_row();
    row.peer_s[0] = 1.8;
    expect_beside(row, "|    onnxruntime spread 9% |");
}

/* ---------------------------------------------------------------------------- options -- */

static void expect_options(char **arguments, bool is_quick, int rounds, int word_count)
{
    int count = 0;
    while (arguments[count])
        count++;
    const struct pass_options options = pass_options_read(count, arguments);
    assert_true(options.is_quick == is_quick);
    assert_int_equal(options.rounds, rounds);
    assert_int_equal(options.word_count, word_count);
    for (int i = 0; i < word_count; i++)
        assert_string_equal(options.words[i], arguments[count - word_count + i]);
}

TEST(options)
{
    expect_options((char *[]){ "load", NULL }, false, 0, 0);
    expect_options((char *[]){ "load", "quick", NULL }, true, 0, 0);
    expect_options((char *[]){ "load", "7", NULL }, false, 7, 0);
    expect_options((char *[]){ "load", "700", "Q8_0", NULL }, false, PASS_ROUNDS_MAX, 1);
    expect_options((char *[]){ "load", "quick", "3", "Q8_0", "2 threads", NULL }, true, 3, 2);
    expect_options((char *[]){ "load", "bert", "128", NULL }, false, 0, 2);
}

TEST(words_pick_rows)
{
    char *words[] = { "Q8_0", "2 threads" };
    const struct pass_options options = { .words = words, .word_count = 2 };
    assert_true(pass_is_wanted(&options, "qwen3-0.6b-Q8_0, decode at 128, 2 threads"));
    assert_false(pass_is_wanted(&options, "qwen3-0.6b-Q8_0, decode at 128, 1 thread"));
    assert_false(pass_is_wanted(&options, "qwen3-0.6b-Q4_K, decode at 128, 2 threads"));
    assert_true(pass_is_wanted(&(struct pass_options){ .rounds = 3 }, "anything"));
}
