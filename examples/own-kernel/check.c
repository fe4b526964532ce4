/* SPDX-License-Identifier: Apache-2.0 */
/* check [URL] - compares an attention kernel of your own with the daemon's attention.
 *
 *     make run     # in one terminal
 *     cc -O2 examples/own-kernel/check.c examples/own-kernel/kernel.c examples/sessions/daemon.c \
 *         $(pkg-config --cflags --libs libcurl libcjson) -lm -o build/check
 *     build/check  # in another
 *
 * Put your kernel in the place of kernel.c. Each case is one problem of a shape or a mask at which
 * kernels go wrong. A line has the largest error of the context in units in the last place (ulp) of
 * the largest number of its row, of the lse in ulps of itself (of 1, where it is smaller), and of
 * the weights as of the context. The program ends with 1 if one is too large. */
#include "../sessions/daemon.h"
#include "kernel.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Scores are floats, too: one of 100 is known to 32 ulps of 1, and so is exp of it. So errors of so
 * many ulps are taken, times the largest lse where that is larger than 1. */
enum { ULPS_MAX = 16 };

/* What no weight is, and no context: to see what a kernel has not written. */
static const float NOT_WRITTEN = 1e30f;

struct check_case {
    const char *name;
    int q_heads, kv_heads, head_dim, q_len, kv_len, past_len, causal, window_left;
    int kv_len_step; /* row i has kv_len - i * kv_len_step keys; 0: all have all */
    float size;      /* of the numbers in query, key and value */
};

static const struct check_case cases[] = {
    { "one key", 1, 1, 8, 1, 1, 0, 0, -1, 0, 1 },
    { "one tile", 2, 2, 16, 4, 16, 0, 0, -1, 0, 1 },
    { "a key more than a tile", 2, 2, 16, 4, 17, 0, 0, -1, 0, 1 },
    { "odd lengths, many tiles", 2, 2, 20, 7, 131, 0, 0, -1, 0, 1 },
    { "grouped heads", 6, 2, 16, 5, 40, 0, 0, -1, 0, 1 },
    { "causal", 2, 2, 16, 33, 33, 0, 1, -1, 0, 1 },
    { "causal behind a past", 2, 1, 16, 3, 50, 47, 1, -1, 0, 1 },
    { "causal with a window", 2, 2, 16, 40, 40, 0, 1, 5, 0, 1 },
    { "rows of unequal kv_len", 2, 2, 16, 6, 60, 0, 0, -1, 11, 1 },
    { "rows that see nothing", 2, 2, 16, 4, 20, 0, 0, -1, 10, 1 },
    { "large scores", 2, 2, 16, 5, 70, 0, 0, -1, 0, 12 },
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* A problem, the daemon's answer, and the kernel's. */
struct run {
    struct kernel_problem problem;
    float *query, *key, *value;
    int *kv_lens;
    float *context, *lse, *weights;
    float *own_context, *own_lse, *own_weights;
};

static void *space(int count, size_t size)
{
    void *memory = calloc((size_t)count + 1, size);
    if (!memory)
        fail("check", "no memory");
    return memory;
}

/* Numbers in [-size, size), the same at each run. */
static float *numbers(int count, float size, uint32_t seed)
{
    float *list = space(count, sizeof *list);
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        list[i] = ((float)(seed >> 8) / (1 << 23) - 1) * size;
    }
    return list;
}

static float *not_written(int count)
{
    float *list = space(count, sizeof *list);
    for (int i = 0; i < count; i++)
        list[i] = NOT_WRITTEN;
    return list;
}

static void begin(struct run *run, const struct check_case *c)
{
    const int queries = c->q_len * c->q_heads * c->head_dim;
    const int keys = c->kv_len * c->kv_heads * c->head_dim, rows = c->q_heads * c->q_len;
    *run = (struct run){ .query = numbers(queries, c->size, 1),
                         .key = numbers(keys, c->size, 2),
                         .value = numbers(keys, c->size, 3),
                         .kv_lens = space(c->q_len, sizeof *run->kv_lens),
                         .context = space(queries, sizeof *run->context),
                         .lse = space(rows, sizeof *run->lse),
                         .weights = space(rows * c->kv_len, sizeof *run->weights),
                         .own_context = not_written(queries),
                         .own_lse = not_written(rows),
                         .own_weights = not_written(rows * c->kv_len) };
    for (int i = 0; i < c->q_len; i++) {
        const int kv_len = c->kv_len - i * c->kv_len_step;
        run->kv_lens[i] = kv_len > 0 ? kv_len : 0;
    }
    run->problem = (struct kernel_problem){ .q_heads = c->q_heads,
                                            .kv_heads = c->kv_heads,
                                            .head_dim = c->head_dim,
                                            .q_len = c->q_len,
                                            .kv_len = c->kv_len,
                                            .past_len = c->past_len,
                                            .causal = c->causal,
                                            .window_left = c->window_left,
                                            .scale = 1 / sqrtf((float)c->head_dim),
                                            .kv_len_of_row = run->kv_lens,
                                            .query = run->query,
                                            .key = run->key,
                                            .value = run->value };
}

static void end(struct run *run)
{
    free(run->query), free(run->key), free(run->value), free(run->kv_lens);
    free(run->context), free(run->lse), free(run->weights);
    free(run->own_context), free(run->own_lse), free(run->own_weights);
}

/* ------------------------------------------------------------------- the daemon's answer -- */

static cJSON *request_of(const struct run *run)
{
    static const char *const outputs[] = { "context", "lse", "weights" };
    const struct kernel_problem *p = &run->problem;
    const int columns = p->kv_heads * p->head_dim;
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "model", "sdpa");
    cJSON_AddNumberToObject(body, "q_heads", p->q_heads);
    cJSON_AddNumberToObject(body, "kv_heads", p->kv_heads);
    cJSON_AddNumberToObject(body, "past_len", p->past_len);
    cJSON_AddNumberToObject(body, "window_left", p->window_left);
    cJSON_AddBoolToObject(body, "causal", p->causal);
    cJSON_AddItemToObject(body, "kv_len", cJSON_CreateIntArray(p->kv_len_of_row, p->q_len));
    cJSON_AddItemToObject(body, "query",
                          rows_to_json(run->query, p->q_len, p->q_heads * p->head_dim));
    cJSON_AddItemToObject(body, "key", rows_to_json(run->key, p->kv_len, columns));
    cJSON_AddItemToObject(body, "value", rows_to_json(run->value, p->kv_len, columns));
    cJSON_AddItemToObject(body, "outputs", cJSON_CreateStringArray(outputs, 3));
    return body;
}

/* All numbers of nested arrays, in order; null is -INFINITY. Returns where the list ends. */
static float *flatten(float *list, const cJSON *json)
{
    const cJSON *item;
    if (!cJSON_IsArray(json)) {
        *list = cJSON_IsNull(json) ? -INFINITY : (float)json->valuedouble;
        return list + 1;
    }
    cJSON_ArrayForEach(item, json) list = flatten(list, item);
    return list;
}

static void ask(struct daemon *daemon, struct run *run)
{
    cJSON *answer = daemon_post(daemon, "/v1/attention", request_of(run));
    flatten(run->context, cJSON_GetObjectItem(answer, "context"));
    flatten(run->lse, cJSON_GetObjectItem(answer, "lse"));
    flatten(run->weights, cJSON_GetObjectItem(answer, "weights"));
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------------------- errors -- */

/* The distance from one float of that size to the next. */
static double ulp(double size)
{
    return ldexp(1, (int)floor(log2(size)) - 23);
}

/* The largest error in a row of numbers, in ulps of the largest of them, or of least where all are
 * smaller. INFINITY where only one side is finite, and where one is NaN. */
static double row_error(const float *own, const float *right, int count, double least)
{
    double size = least, error = 0;
    for (int i = 0; i < count; i++) {
        if (own[i] == right[i])
            continue;
        if (!isfinite(own[i]) || !isfinite(right[i]))
            return INFINITY;
        error = fmax(error, fabs((double)own[i] - right[i]));
    }
    for (int i = 0; i < count; i++)
        if (isfinite(right[i]))
            size = fmax(size, fabs(right[i]));
    return error / ulp(size);
}

/* The errors of an output, [count][columns]. */
struct errors {
    double largest;
    int bad; /* the first row whose error is too large; -1: none */
};

static struct errors rows_error(const float *own, const float *right, int count, int columns,
                                double least, double limit)
{
    struct errors errors = { 0, -1 };
    for (int i = 0; i < count; i++) {
        const double error = row_error(own + i * columns, right + i * columns, columns, least);
        if (errors.bad < 0 && error > limit)
            errors.bad = i;
        errors.largest = fmax(errors.largest, error);
    }
    return errors;
}

static double limit_of(const struct run *run)
{
    double largest = 1;
    for (int i = 0; i < run->problem.q_len * run->problem.q_heads; i++)
        if (isfinite(run->lse[i]))
            largest = fmax(largest, fabs(run->lse[i]));
    return ULPS_MAX * largest;
}

static void print_row(const char *what, int query, int head)
{
    printf("    the first wrong %s is that of query %d in head %d\n", what, query, head);
}

/* Prints the lines of a case; whether all errors are small. */
static int report(const struct run *run, const char *name)
{
    const struct kernel_problem *p = &run->problem;
    const int rows = p->q_len * p->q_heads;
    const double limit = limit_of(run);
    const struct errors context =
        rows_error(run->own_context, run->context, rows, p->head_dim, 1e-30, limit);
    const struct errors lse = rows_error(run->own_lse, run->lse, rows, 1, 1, limit);
    struct errors weights = { 0, -1 };
    if (run->own_weights[0] != NOT_WRITTEN)
        weights = rows_error(run->own_weights, run->weights, rows, p->kv_len, 1e-30, limit);
    const int is_right = context.bad < 0 && lse.bad < 0 && weights.bad < 0;
    printf("%-24s context %-9.3g lse %-9.3g weights %-9.3g %s\n", name, context.largest,
           lse.largest, weights.largest, is_right ? "right" : "WRONG");
    if (context.bad >= 0)
        print_row("context", context.bad / p->q_heads, context.bad % p->q_heads);
    if (lse.bad >= 0)
        print_row("lse", lse.bad % p->q_len, lse.bad / p->q_len);
    if (weights.bad >= 0)
        print_row("row of weights", weights.bad % p->q_len, weights.bad / p->q_len);
    return is_right;
}

int main(int argc, char **argv)
{
    struct daemon daemon;
    int wrong = 0;
    daemon_open(&daemon, argc > 1 ? argv[1] : "http://127.0.0.1:8080");
    for (int i = 0; i < CASES; i++) {
        struct run run;
        begin(&run, &cases[i]);
        ask(&daemon, &run);
        kernel(&run.problem, run.own_context, run.own_lse, run.own_weights);
        wrong += !report(&run, cases[i].name);
        end(&run);
    }
    printf("%d of %d cases are right\n", CASES - wrong, CASES);
    daemon_close(&daemon);
    return wrong > 0;
}
