/* SPDX-License-Identifier: Apache-2.0 */
/* bench_json.c - what JSON costs: MB/s of a body read, ns per float read and written.
 *
 * There is one body of a million floats of each kind. All contenders read and write it in turns,
 * RUNS times. The best run is what the code can do; the median shows how noisy the machine was.
 * Time is the CPU time of this process, so that other processes on the machine count less.
 * Beside ours: cJSON, simdjson if it was there when this was built, and for writing printf()
 * with the nine digits that any float needs. */
#include "json/json.h"
#include "json/json_numbers.h"
#include "json/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 1000, COLUMNS = 1000, COUNT = ROWS * COLUMNS, RUNS = 7, CONTENDERS_MAX = 3 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void require(bool done)
{
    if (!done) {
        fprintf(stderr, "out of memory, or a body that somebody cannot read\n");
        exit(1);
    }
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
    require(text->failed == FAULT_NONE);
}

/* What a contender reads or writes, and where to. */
struct work {
    struct text body;
    float *values;
    void *simdjson;
    size_t written;
};

struct contender {
    const char *name;
    void (*run)(struct work *work);
};

/* Runs all contenders in turns and prints a line for each. */
static void compete(const char *what, const struct contender *contenders, int count,
                    struct work *work)
{
    static double runs_ns[CONTENDERS_MAX][RUNS];
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < count; i++) {
            contenders[i].run(work); /* its own run, not another's, shapes the heap */
            const double begin_ns = now_ns();
            contenders[i].run(work);
            runs_ns[i][run] = now_ns() - begin_ns;
        }
    for (int i = 0; i < count; i++) {
        const double bytes = (double)(work->written ? work->written : work->body.used);
        qsort(runs_ns[i], RUNS, sizeof runs_ns[i][0], compare_doubles);
        const double best_ns = runs_ns[i][0], median_ns = runs_ns[i][RUNS / 2];
        printf("%-28s %-9s %5.1f MB  %6.0f MB/s  %6.1f ns a float (median %.1f)\n", what,
               contenders[i].name, bytes / 1e6, bytes / best_ns * 1e3, best_ns / COUNT,
               median_ns / COUNT);
    }
}

/* ------------------------------------------------------------------ read -- */

static void read_ours(struct work *work)
{
    struct json_document document;
    struct fault fault;
    const struct json_options options = { 0 };
    require(json_read(&document, work->body.data, work->body.used, &options, &fault));
    require(document.arrays[0].count == COUNT);
    json_free(&document);
}

static void read_cjson(struct work *work)
{
    size_t count = 0;
    cJSON *root = cJSON_ParseWithLength(work->body.data, work->body.used);
    const cJSON *row, *number;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(root, "query"))
        cJSON_ArrayForEach(number, row)
            work->values[count++] = (float)number->valuedouble;
    require(count == COUNT);
    cJSON_Delete(root);
}

#ifdef WITH_SIMDJSON
void *simdjson_reader_create(const char *text, size_t size);
void simdjson_reader_free(void *reader);
size_t simdjson_reader_read(void *reader, float *values);

static void read_simdjson(struct work *work)
{
    require(simdjson_reader_read(work->simdjson, work->values) == COUNT);
}
#endif

static void bench_read(const char *what, void (*put)(struct text *))
{
    static const struct contender contenders[] = {
        { "attnd", read_ours },
        { "cJSON", read_cjson },
#ifdef WITH_SIMDJSON
        { "simdjson", read_simdjson },
#endif
    };
    struct work work = { .values = malloc(COUNT * sizeof(float)) };
    require(work.values != NULL);
    make_body(&work.body, put);
#ifdef WITH_SIMDJSON
    work.simdjson = simdjson_reader_create(work.body.data, work.body.used);
    require(work.simdjson != NULL);
#endif
    compete(what, contenders, (int)(sizeof contenders / sizeof contenders[0]), &work);
#ifdef WITH_SIMDJSON
    simdjson_reader_free(work.simdjson);
#endif
    text_free(&work.body);
    free(work.values);
}

/* ----------------------------------------------------------------- write -- */

static void write_ours(struct work *work)
{
    const int64_t shape[] = { ROWS, COLUMNS };
    struct text text;
    text_init(&text, SIZE_MAX);
    text_tensor(&text, work->values, 2, shape);
    require(text.failed == FAULT_NONE);
    work->written = text.used;
    text_free(&text);
}

static void write_cjson(struct work *work)
{
    for (int i = 0; i < ROWS; i++) {
        cJSON *row = cJSON_CreateFloatArray(work->values + (size_t)i * COLUMNS, COLUMNS);
        char *text = cJSON_PrintUnformatted(row);
        require(text != NULL);
        free(text);
        cJSON_Delete(row);
    }
}

static void write_printf(struct work *work)
{
    char number[32];
    int size = 0;
    for (int i = 0; i < COUNT; i++)
        size += snprintf(number, sizeof number, "%.9g", (double)work->values[i]);
    require(size > COUNT);
}

static void bench_write(const char *what, float (*make)(void))
{
    static const struct contender contenders[] = { { "attnd", write_ours },
                                                   { "cJSON", write_cjson },
                                                   { "printf", write_printf } };
    struct work work = { .values = malloc(COUNT * sizeof(float)) };
    require(work.values != NULL);
    for (int i = 0; i < COUNT; i++)
        work.values[i] = make();
    compete(what, contenders, (int)(sizeof contenders / sizeof contenders[0]), &work);
    free(work.values);
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

static float make_score(void) /* of many sizes */
{
    const float x = random_unit();
    return x * x * x * 100;
}

int main(void)
{
    bench_read("read 0.123456789", put_nine_digits);
    bench_read("read shortest float32", put_shortest);
    bench_read("read 0.12", put_short);
    bench_read("read 123", put_integer);
    bench_read("read 17 digits (doubles)", put_double);
    bench_write("write -1 to 1", random_unit);
    bench_write("write softmax weights", make_weight);
    bench_write("write scores", make_score);
    bench_write("write 123", make_integer);
    return 0;
}
