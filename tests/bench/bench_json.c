/* bench_json.c - what JSON costs: MB/s of a body read, ns per float read and written.
 *
 * Each line is the median of RUNS runs over one body; the spread from the fastest
 * to the slowest run stands beside it, so that a noisy machine shows. Numbers that
 * look like a model's (nine significant digits around 0) are the ones to watch;
 * short and very long ones show what else clients send. */
#include "json.h"
#include "json_numbers.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 1000, COLUMNS = 1000, COUNT = ROWS * COLUMNS, RUNS = 11 };

struct timing {
    double median_ns, fastest_ns, slowest_ns;
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct timing summarise(double *runs_ns)
{
    qsort(runs_ns, RUNS, sizeof *runs_ns, compare_doubles);
    return (struct timing){ runs_ns[RUNS / 2], runs_ns[0], runs_ns[RUNS - 1] };
}

static uint64_t random_next(void)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* In (-1, 1), 24 random bits. */
static float random_unit(void)
{
    return (float)((int64_t)(random_next() >> 39) - (1 << 24)) / (float)(1 << 24);
}

static void put_nine_digits(struct text *text)
{
    text_format(text, "%.9f", (double)random_unit());
}

static void put_shortest(struct text *text)
{
    text_float(text, random_unit());
}

static void put_short(struct text *text)
{
    text_format(text, "%.2f", (double)random_unit());
}

static void put_integer(struct text *text)
{
    text_integer(text, (int64_t)(random_next() % 1000));
}

static void put_double(struct text *text)
{
    text_format(text, "%.17g", (double)random_unit() / 3);
}

static void make_body(struct text *text, void (*put)(struct text *))
{
    text_init(text, SIZE_MAX);
    text_raw(text, "{\"query\":[");
    for (int i = 0; i < ROWS; i++) {
        text_raw(text, i > 0 ? ",[" : "[");
        for (int j = 0; j < COLUMNS; j++) {
            text_raw(text, j > 0 ? "," : "");
            put(text);
        }
        text_raw(text, "]");
    }
    text_raw(text, "]}");
    if (text->failed != FAULT_NONE)
        abort();
}

static void bench_read(const char *name, void (*put)(struct text *))
{
    struct text body;
    make_body(&body, put);
    double runs_ns[RUNS];
    for (int run = 0; run < RUNS; run++) {
        struct json_document document;
        struct fault fault;
        const double begin_ns = now_ns();
        if (!json_read(&document, body.data, body.used, &(struct json_options){ 0 }, &fault)) {
            fprintf(stderr, "%s\n", fault.message);
            abort();
        }
        runs_ns[run] = now_ns() - begin_ns;
        json_free(&document);
    }
    const struct timing t = summarise(runs_ns);
    const double bytes = (double)body.used;
    printf("read  %-22s %5.1f MB  %6.0f MB/s (%.0f to %.0f)  %5.1f ns a float\n", name, bytes / 1e6,
           bytes / t.median_ns * 1e3, bytes / t.slowest_ns * 1e3, bytes / t.fastest_ns * 1e3,
           t.median_ns / COUNT);
    text_free(&body);
}

static void bench_write(const char *name, float (*make)(void))
{
    float *values = malloc(COUNT * sizeof *values);
    if (!values)
        abort();
    for (int i = 0; i < COUNT; i++)
        values[i] = make();
    const int64_t shape[] = { ROWS, COLUMNS };
    double runs_ns[RUNS];
    size_t bytes = 0;
    for (int run = 0; run < RUNS; run++) {
        struct text text;
        text_init(&text, SIZE_MAX);
        const double begin_ns = now_ns();
        text_tensor(&text, values, 2, shape);
        runs_ns[run] = now_ns() - begin_ns;
        bytes = text.used;
        text_free(&text);
    }
    const struct timing t = summarise(runs_ns);
    printf("write %-22s %5.1f MB  %6.0f MB/s (%.0f to %.0f)  %5.1f ns a float\n", name,
           (double)bytes / 1e6, (double)bytes / t.median_ns * 1e3,
           (double)bytes / t.slowest_ns * 1e3, (double)bytes / t.fastest_ns * 1e3,
           t.median_ns / COUNT);
    free(values);
}

static float make_integer(void)
{
    return (float)(random_next() % 1000);
}

static float make_weight(void) /* like a softmax: small and positive */
{
    const float x = random_unit();
    return x * x * x * x / 100;
}

int main(void)
{
    bench_read("0.123456789", put_nine_digits);
    bench_read("shortest float32", put_shortest);
    bench_read("0.12", put_short);
    bench_read("123", put_integer);
    bench_read("17 digits (doubles)", put_double);
    bench_write("-1 to 1", random_unit);
    bench_write("softmax weights", make_weight);
    bench_write("123", make_integer);
    return 0;
}
