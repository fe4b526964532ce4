/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_pass.c - see traffic_pass.h. */
#include "traffic_pass.h"

#include "answer.h"
#include "gguf_quantize.h"
#include "kernel_tables.h"
#include "machine.h"
#include "own.h"
#include "traffic_call.h"
#include "traffic_report.h"
#include "yardstick.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MIN = 5, ROUNDS_LEAST = 3, READ_KEYS = 32768, READ_RUNS = 2 };

/* Of the rounds of a row: quick, and in full; a row whose rounds are long ends with fewer. */
static const double QUICK_S = 10, FULL_S = 30, LONG = 8;

/* ------------------------------------------------------------------------------ shares -- */

/* The products of 8-bit digits, or of parts of 8 bits, that take the place of one of floats, at the
 * highest precision: a row in fixed point has three digits; a row of floats has three parts, and
 * the parameters have two (F16) or one. */
enum { DIGITS = 3, F16_PRODUCTS = 5, BF16_PRODUCTS = 3, ATTENTION_PRODUCTS = 6 };

static bool has_unit(const char *kernels, const char *unit)
{
    return strcmp(kernels, unit) == 0;
}

/* Seconds of one core for the products. */
static double products_s(const struct pass_work *work, const struct pass_peaks *peaks,
                         const char *kernels)
{
    const bool is_block = gguf_block(work->type)->count > 1;
    const bool has_tiles = has_unit(kernels, "amx") && peaks->tiles > 0;
    const bool has_dots = (has_unit(kernels, "amx") || has_unit(kernels, "avx512_bf16")
                           || has_unit(kernels, "avx512_vnni"))
                          && peaks->dots > 0;
    if (is_block && has_tiles && !work->is_one_row)
        return work->product_flops * DIGITS / peaks->tiles;
    if (is_block && has_dots)
        return work->product_flops * DIGITS / peaks->dots;
    if (has_tiles && strcmp(work->type, "F16") == 0)
        return work->product_flops * F16_PRODUCTS / peaks->tiles;
    if (has_tiles && strcmp(work->type, "BF16") == 0)
        return work->product_flops * BF16_PRODUCTS / peaks->tiles;
    return work->product_flops / peaks->flops;
}

double pass_least_s(const struct pass_work *work, const struct pass_peaks *peaks,
                    const char *kernels, int threads)
{
    const bool has_tiles = has_unit(kernels, "amx") && peaks->tiles > 0 && !work->is_one_row;
    const double attention_s = has_tiles ? work->attention_flops * ATTENTION_PRODUCTS / peaks->tiles
                                         : work->attention_flops / peaks->flops;
    return (products_s(work, peaks, kernels) + attention_s) / threads;
}

void pass_shares(const struct pass_spent *spent, int threads, double shares[PASS_SHARE_COUNT])
{
    const double all_s = spent->clock_s * threads;
    double sum_s = 0;
    for (int i = 0; i < PASS_PART_COUNT; i++) {
        shares[i] = spent->parts[i] / all_s;
        sum_s += spent->parts[i];
    }
    shares[PASS_PART_COUNT] = fmax(0, spent->compute_s * threads - sum_s) / all_s;
    shares[PASS_PART_COUNT + 1] = fmax(0, spent->clock_s - spent->compute_s) / spent->clock_s;
}

/* ------------------------------------------------------------------------------ a round -- */

/* Parts of the table, and their names in the metric; the last has all others. */
static const char *const PARTS[PASS_PART_COUNT - 1] = { "products", "attention", "rotary", "rows",
                                                        "vocabulary" };

static double part_of(const struct metrics_page *page, const char *part)
{
    char series[80];
    snprintf(series, sizeof series, "attnd_pass_seconds_total{part=\"%s\"}", part);
    return metrics_page_value(page, series);
}

void pass_begin(struct pass_row *row)
{
    answer_metrics(&row->client, &row->before);
    row->calls = 0;
    row->clock_s = 0;
    row->busy_s = machine_busy_s();
    traffic_server_cpu_s(row->server);
}

void pass_call(struct pass_row *row, struct traffic_connection *connection,
               const struct traffic_request *request)
{
    row->clock_s += traffic_call(connection, request);
    row->spent.compute_s += traffic_connection_timing(connection, "compute") * 1e-3;
    row->calls++;
}

static void add_parts(struct pass_row *row)
{
    static const char NAME[] = "attnd_pass_seconds_total";
    struct metrics_page after;
    answer_metrics(&row->client, &after);
    double rest_s = metrics_page_sum(&after, NAME) - metrics_page_sum(&row->before, NAME);
    for (int i = 0; i < PASS_PART_COUNT - 1; i++) {
        const double spent_s = part_of(&after, PARTS[i]) - part_of(&row->before, PARTS[i]);
        row->spent.parts[i] += spent_s;
        rest_s -= spent_s;
    }
    row->spent.parts[PASS_PART_COUNT - 1] += fmax(0, rest_s);
    metrics_page_free(&row->before);
    metrics_page_free(&after);
}

void pass_end(struct pass_row *row)
{
    const double cpu_s = traffic_server_cpu_s(row->server);
    row->others_s += fmax(0, machine_busy_s() - row->busy_s - cpu_s);
    row->spent.clock_s += row->clock_s;
    row->own_s[row->rounds] = (row->threads == 1 ? cpu_s : row->clock_s) / row->calls;
    add_parts(row);
}

/* 256 MiB that no cache holds. */
static double read_speed(int threads)
{
    static struct own own;
    const struct bench_shape shape = { 1, 8, 8, 1, READ_KEYS, 128, 0, threads };
    double seconds[READ_RUNS];
    if (!own.key) {
        own_init(&own, &shape);
        own_plan(&own);
    }
    own.threads = threads;
    own_times_read(&own, READ_RUNS, seconds);
    return 2.0 * 8 * READ_KEYS * 128 * sizeof(float) / fmin(seconds[0], seconds[1]);
}

static struct pass_peaks measure_peaks(const char *kernels, int threads)
{
    const bool has_tiles = has_unit(kernels, "amx") && kernel_table_of_unit();
    return (struct pass_peaks){ .flops = yardstick_flops(kernels),
                                .dots = yardstick_dots(),
                                .tiles = has_tiles ? yardstick_tiles() : 0,
                                .read = read_speed(threads) };
}

/* -------------------------------------------------------------------------------- a row -- */

struct pass_options pass_options_read(int argc, char **argv)
{
    struct pass_options options = { .words = argv + 1, .word_count = argc - 1 };
    if (options.word_count > 0 && strcmp(options.words[0], "quick") == 0) {
        options.is_quick = true;
        options.words++;
        options.word_count--;
    }
    if (options.word_count > 0 && atoi(options.words[0]) > 0) {
        const int rounds = atoi(options.words[0]);
        options.rounds = rounds < PASS_ROUNDS_MAX ? rounds : PASS_ROUNDS_MAX;
        options.words++;
        options.word_count--;
    }
    return options;
}

bool pass_is_wanted(const struct pass_options *options, const char *name)
{
    for (int i = 0; i < options->word_count; i++)
        if (!strstr(name, options->words[i]))
            return false;
    return true;
}

void pass_write_heading(FILE *to)
{
    fprintf(to,
            "\n| %-42s | %18s | %24s | of peak | of read | products | attention | rotary | rows | "
            "vocabulary | other | waits | around | others' CPU |\n|%s|%s:|%s:|--:|--:|--:|--:|--:|"
            "--:|--:|--:|--:|--:|--:|\n",
            "pass", "tokens/s (spread)", "peer's time by ours",
            "--------------------------------------------", "-------------------",
            "-------------------------");
}

/* The medians of all peaks over the rounds. */
static struct pass_peaks median_peaks(const struct pass_row *row)
{
    double numbers[4][PASS_ROUNDS_MAX];
    for (int i = 0; i < row->rounds; i++) {
        numbers[0][i] = row->peaks[i].flops;
        numbers[1][i] = row->peaks[i].dots;
        numbers[2][i] = row->peaks[i].tiles;
        numbers[3][i] = row->peaks[i].read;
    }
    return (struct pass_peaks){ median(numbers[0], row->rounds), median(numbers[1], row->rounds),
                                median(numbers[2], row->rounds), median(numbers[3], row->rounds) };
}

static void describe_peer(char *text, size_t size, const struct pass_row *row, double *ratio)
{
    double ratios[PASS_ROUNDS_MAX];
    char said[RATIO_BYTES];
    for (int i = 0; i < row->rounds; i++)
        ratios[i] = row->peer_s[i] / row->own_s[i];
    *ratio = row->peer ? ratio_describe(said, ratios, row->rounds, &row->busy) : 0;
    snprintf(text, size, "%s %s", row->peer ? row->peer : "-", row->peer ? said : "");
}

double pass_write_row(FILE *to, struct pass_row *row)
{
    char beside[RATIO_BYTES + 40];
    double shares[PASS_SHARE_COUNT], ratio;
    const struct pass_peaks peaks = median_peaks(row);
    describe_peer(beside, sizeof beside, row, &ratio); /* before the rounds are sorted */
    const double spread = ratio_spread(row->own_s, row->rounds);
    const double own_s = median(row->own_s, row->rounds);
    pass_shares(&row->spent, row->threads, shares);
    fprintf(to, "| %-42s | %10.1f (%3.0f%%) | %24s | %7.2f | %7.2f |", row->name,
            row->work.tokens / own_s, spread * 100, beside,
            pass_least_s(&row->work, &peaks, row->kernels, row->threads) / own_s,
            row->work.bytes / peaks.read / own_s);
    for (int i = 0; i < PASS_SHARE_COUNT; i++)
        fprintf(to, " %.1f%% |", shares[i] * 100);
    fprintf(to, " %.0f%% |\n",
            100 * row->others_s / row->spent.clock_s / (double)sysconf(_SC_NPROCESSORS_ONLN));
    return ratio;
}

static void report(struct pass_row *row)
{
    static bool has_heading;
    char figure[160];
    if (!has_heading)
        pass_write_heading(stdout);
    has_heading = true;
    const double ratio = pass_write_row(stdout, row);
    fflush(stdout);
    snprintf(figure, sizeof figure, "%s, tokens", row->name);
    traffic_report_figure(figure, row->work.tokens / median(row->own_s, row->rounds), "/s");
    if (ratio > 0)
        traffic_report_figure(row->name, ratio, "ratio");
}

static void read_kernels(struct pass_row *row)
{
    static const char BEFORE[] = "kernels=\"";
    struct metrics_page page;
    answer_metrics(&row->client, &page);
    for (int i = 0; i < page.series_count; i++) {
        const char *at = strncmp(page.series[i].name, "attnd_build_info", 16) == 0
                             ? strstr(page.series[i].name, BEFORE)
                             : NULL;
        if (at)
            snprintf(row->kernels, sizeof row->kernels, "%.*s",
                     (int)strcspn(at + strlen(BEFORE), "\""), at + strlen(BEFORE));
    }
    metrics_page_free(&page);
}

static bool goes_on(const struct pass_row *row, const struct pass_options *options, double begin_s)
{
    const double elapsed_s = now_s(2) - begin_s, budget_s = options->is_quick ? QUICK_S : FULL_S;
    if (options->rounds > 0 || row->rounds == PASS_ROUNDS_MAX)
        return row->rounds < options->rounds;
    return row->rounds < ROUNDS_LEAST || (row->rounds < ROUNDS_MIN && elapsed_s < LONG * budget_s)
           || elapsed_s < budget_s;
}

void pass_measure(struct pass_row *row, const struct pass_contest *contest,
                  const struct pass_options *options)
{
    const double begin_s = now_s(2);
    http_client_init(&row->client, row->server->port);
    read_kernels(row);
    for (row->rounds = 0; goes_on(row, options, begin_s); row->rounds++) {
        row->peaks[row->rounds] = measure_peaks(row->kernels, row->threads);
        for (int turn = 0; turn < 2; turn++) {
            if ((turn + row->rounds) % 2 == 0)
                contest->own(contest->context, row);
            else if (row->peer)
                row->peer_s[row->rounds] = contest->peer(contest->context, row);
        }
    }
    http_client_free(&row->client);
    report(row);
}
