/* SPDX-License-Identifier: Apache-2.0 */
/* bench_exactness.c - how far context, weights and lse are from the truth, in units in the last
 * place, for every table of kernels and for the textbook's loops in float. Then the same for the
 * kernels' own functions, and for projections.
 *
 * The truth is textbook.h in long double, from the same floats. Each kind of problem tests one
 * way of going wrong: long sums, scores too large for their differences to be exact, one key
 * that has nearly all the weight, 100 000 keys that are equal, numbers too small to be normal,
 * values that cancel. lib/PERFORMANCE.md shows some of the rows. Units:
 *     context   the last place of the greatest |context| of the row
 *     of value  the same numbers, in the last place of the greatest |value| of the head
 *     weights   the last place of the weight; those that are not normal numbers are left out
 *     lse       its last place, or that of 1 where it is smaller
 *     projection  the last place of the row's greatest |output| */
#include "attention_case.h"
#include "kernel_tables.h"

#include "kernels/kernels.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

struct textbook_place {
    int64_t batch, head, kv_head, row;
};

#define REAL        float
#define EXP         expf
#define LOG         logf
#define TANH        tanhf
#define NAMED(name) name##_float
#include "textbook.h"

#define REAL        long double
#define EXP         expl
#define LOG         logl
#define TANH        tanhl
#define NAMED(name) name##_exact
#include "textbook.h"

/* --------------------------------------------------------------------------------- errors -- */

enum { CONTEXT, OF_VALUE, WEIGHTS, LSE, OUTPUTS };

struct error {
    double max, sum, count, within_2;
};

static const char *const OUTPUT_NAMES[OUTPUTS] = { "context", "context, of value", "weights",
                                                   "lse" };

/* The distance from x to the next float; x is at least the least normal number. */
static double last_place(double x)
{
    int exponent;

    frexp(fmax(fabs(x), (double)FLT_MIN), &exponent);
    return ldexp(1, exponent - FLT_MANT_DIG);
}

static void add_error(struct error *error, double got, long double want, double unit)
{
    const double difference = (double)fabsl((long double)got - want) / unit;

    error->max = fmax(error->max, isnan(difference) ? INFINITY : difference);
    error->sum += difference;
    error->count++;
    error->within_2 += difference <= 2;
}

static double greatest(const long double *numbers, int64_t count)
{
    double max = 0;

    for (int64_t i = 0; i < count; i++)
        max = fmax(max, fabs((double)numbers[i]));
    return max;
}

static double greatest_value(const struct attn_tensor *value, int64_t head)
{
    double max = 0;

    for (int64_t j = 0; j < value->shape[2]; j++)
        for (int64_t d = 0; d < value->shape[3]; d++)
            max = fmax(max, fabs((double)*attention_at(value, 0, head, j, d)));
    return max;
}

/* ------------------------------------------------------------------------------- problems -- */

enum kind {
    KIND_PLAIN,
    KIND_LARGE,     /* scores of +-1e4 */
    KIND_DOMINANT,  /* one key has nearly all the weight */
    KIND_EQUAL,     /* all keys are equal, so all weights are */
    KIND_SUBNORMAL, /* query, key and value too small to be normal numbers */
    KIND_SMALL,     /* scores of less than 2 */
    KIND_CANCEL,    /* values of +-1e6 in turn */
    KIND_POSITIVE,  /* values of one sign, so that no error cancels */
};

struct study {
    const char *name;
    enum kind kind;
    int64_t q_len, kv_len, head_dim;
    int problems;
    float softcap, slope;
    bool causal;
};

static const struct study STUDIES[] = {
    { "random, 16 keys", KIND_PLAIN, 64, 16, 32, 400, 0, 0, false },
    { "random, 512 keys", KIND_PLAIN, 64, 512, 64, 20, 0, 0, false },
    { "random, 512 keys, head_dim 80", KIND_PLAIN, 64, 512, 80, 20, 0, 0, false },
    { "random, 4096 keys", KIND_PLAIN, 64, 4096, 64, 4, 0, 0, false },
    { "random, 4096 keys, head_dim 128", KIND_PLAIN, 64, 4096, 128, 2, 0, 0, false },
    { "scores below 2, 4096 keys", KIND_SMALL, 64, 4096, 64, 4, 0, 0, false },
    { "positive values, 4096 keys", KIND_POSITIVE, 64, 4096, 64, 4, 0, 0, false },
    { "causal, 2048 keys", KIND_PLAIN, 2048, 2048, 32, 1, 0, 0, true },
    { "ALiBi, 4096 keys", KIND_PLAIN, 64, 4096, 64, 2, 0, 0.0625f, false },
    { "softcap 2, 4096 keys", KIND_PLAIN, 64, 4096, 64, 2, 2, 0, false },
    { "one dominant key of 4096", KIND_DOMINANT, 64, 4096, 64, 2, 0, 0, false },
    { "100 000 equal keys", KIND_EQUAL, 8, 100000, 16, 1, 0, 0, false },
    { "values that cancel, 4096 keys", KIND_CANCEL, 64, 4096, 64, 2, 0, 0, false },
    { "scores of +-1e4, 512 keys", KIND_LARGE, 64, 512, 64, 12, 0, 0, false },
    { "subnormal inputs, 512 keys", KIND_SUBNORMAL, 64, 512, 64, 2, 0, 0, false },
    { "1 row, 512 keys", KIND_PLAIN, 1, 512, 64, 400, 0, 0, false },
    { "1 row, 4096 keys", KIND_PLAIN, 1, 4096, 64, 100, 0, 0, false },
    { "4 rows, 4096 keys", KIND_PLAIN, 4, 4096, 64, 40, 0, 0, false },
};

enum { STUDY_COUNT = sizeof STUDIES / sizeof STUDIES[0] };

/* Roughly normal, of variance 1. */
static float normal(struct fill *fill)
{
    float sum = 0;

    for (int i = 0; i < 12; i++)
        sum += fill_float(fill, -0.5f, 0.5f);
    return sum;
}

static void fill_normal(struct fill *fill, const struct attn_tensor *tensor, float factor)
{
    float *numbers = tensor->data;

    for (int64_t i = 0; i < tensor->shape[1] * tensor->shape[2] * tensor->shape[3]; i++)
        numbers[i] = normal(fill) * factor;
}

static void change_key(struct attn_problem *problem, enum kind kind)
{
    const int64_t head_dim = problem->key.shape[3];

    for (int64_t h = 0; h < problem->key.shape[1]; h++)
        for (int64_t j = 0; j < problem->key.shape[2]; j++) {
            float *key = attention_at(&problem->key, 0, h, j, 0);
            if (kind == KIND_EQUAL)
                memcpy(key, attention_at(&problem->key, 0, h, 0, 0),
                       (size_t)head_dim * sizeof *key);
            if (kind == KIND_DOMINANT && j == problem->key.shape[2] / 3)
                for (int64_t d = 0; d < head_dim; d++)
                    key[d] = 3 * *attention_at(&problem->query, 0, h, 0, d);
        }
}

/* The size of values that cancel. */
static const float CANCELLING = 1e6f;

static void change_value(struct attn_problem *problem, enum kind kind)
{
    for (int64_t h = 0; h < problem->value.shape[1]; h++)
        for (int64_t j = 0; j < problem->value.shape[2]; j++)
            for (int64_t d = 0; d < problem->value.shape[3]; d++) {
                float *value = attention_at(&problem->value, 0, h, j, d);
                if (kind == KIND_POSITIVE)
                    *value = fabsf(*value);
                if (kind == KIND_CANCEL)
                    *value = (j % 2 == 0 ? CANCELLING : -CANCELLING) + *value;
            }
}

static void make(struct attention_case *c, const struct study *study, uint64_t seed)
{
    const struct attention_sizes sizes = {
        1, 2, 2, study->q_len, study->kv_len, study->head_dim, study->head_dim
    };
    static float slopes[2];
    struct fill fill = { seed };

    attention_case_init(c, &sizes, LAYOUT_DENSE, seed);
    struct attn_problem *problem = &c->problem;
    const float large = study->kind == KIND_LARGE ? 60.0f : study->kind == KIND_SMALL ? 0.6f : 1.0f;
    const float small = study->kind == KIND_SUBNORMAL ? 1e-39f : 1.0f;
    fill_normal(&fill, &problem->query, large * small);
    fill_normal(&fill, &problem->key, large * small);
    fill_normal(&fill, &problem->value, small);
    change_key(problem, study->kind);
    change_value(problem, study->kind);
    slopes[0] = study->slope;
    slopes[1] = study->slope / 4;
    problem->alibi_slopes = study->slope != 0 ? slopes : NULL;
    problem->options.softcap = study->softcap;
    problem->options.causal = study->causal;
}

/* ---------------------------------------------------------------------------- comparisons -- */

enum { TABLES_MAX = 12, TEXTBOOK = TABLES_MAX, ANSWERS };

/* What computes: each table in its highest precision, the tiles' model in all, the dots' last. */
static struct computer {
    const struct attn_kernels *kernels;
    enum attn_precision precision;
} computers[TABLES_MAX];
static int computer_count;

static void list_computers(void)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int p = *k == kernel_table_of_dots() ? ATTN_PRECISION_MEDIUM : 0;
             p < ((*k)->matrix != NULL ? ATTN_PRECISION_COUNT : 1); p++)
            computers[computer_count++] = (struct computer){ *k, (enum attn_precision)p };
}

/* The errors of every answer to the problems of a study. */
static struct error errors[STUDY_COUNT][ANSWERS][OUTPUTS];

struct truth {
    long double *context, *weights, lse;
    double context_unit, value_unit;
};

static void compare(struct error missed[OUTPUTS], const struct attn_problem *problem,
                    const struct truth *truth, const float *context, const float *weights,
                    float lse)
{
    for (int64_t d = 0; d < problem->value.shape[3]; d++) {
        add_error(&missed[CONTEXT], (double)context[d], truth->context[d], truth->context_unit);
        add_error(&missed[OF_VALUE], (double)context[d], truth->context[d], truth->value_unit);
    }
    for (int64_t j = 0; j < problem->key.shape[2]; j++)
        if (truth->weights[j] >= (long double)FLT_MIN)
            add_error(&missed[WEIGHTS], (double)weights[j], truth->weights[j],
                      last_place((double)truth->weights[j]));
    add_error(&missed[LSE], (double)lse, truth->lse, last_place(fmax(1, fabs((double)truth->lse))));
}

static void *allocate(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count, size);

    if (memory == NULL) {
        perror("bench_exactness");
        exit(1);
    }
    return memory;
}

/* All answers to one problem: answers[table] and the textbook's. */
static void compare_rows(const struct study *study, const struct attn_problem *answers)
{
    const struct attn_problem *problem = &answers[0];
    const int64_t kv_len = problem->key.shape[2], columns = problem->value.shape[3];
    struct error(*missed)[OUTPUTS] = errors[study - STUDIES];
    struct truth truth = { allocate(columns, sizeof *truth.context),
                           allocate(kv_len, sizeof *truth.weights), 0, 0, 0 };
    float *context = allocate(columns, sizeof *context), lse;
    float *weights = allocate(kv_len, sizeof *weights);

    for (int64_t h = 0; h < problem->query.shape[1]; h++) {
        truth.value_unit = last_place(greatest_value(&problem->value, h));
        for (int64_t i = 0; i < problem->query.shape[2]; i++) {
            const struct textbook_place at = { 0, h, h, i };
            textbook_row_exact(problem, &at, truth.context, &truth.lse, truth.weights);
            truth.context_unit = last_place(greatest(truth.context, columns));
            textbook_row_float(problem, &at, context, &lse, weights);
            compare(missed[TEXTBOOK], problem, &truth, context, weights, lse);
            for (int t = 0; t < computer_count; t++)
                compare(missed[t], problem, &truth, attention_at(&answers[t].context, 0, h, i, 0),
                        attention_at(&answers[t].weights, 0, h, i, 0),
                        *attention_at(&answers[t].lse, 0, h, i, 0));
        }
    }
    free(truth.context);
    free(truth.weights);
    free(context);
    free(weights);
}

static void run_study(const struct study *study)
{
    for (int n = 0; n < study->problems; n++) {
        struct attn_problem answers[TABLES_MAX];
        struct attention_case c;
        make(&c, study, (uint64_t)(1000 * (study - STUDIES) + n));
        for (int t = 0; t < computer_count; t++) {
            attention_case_outputs(&c, OUT_CONTEXT | OUT_WEIGHTS | OUT_LSE, LAYOUT_DENSE);
            c.problem.kernels = computers[t].kernels;
            c.problem.options.precision = computers[t].precision;
            attention_run(&c.problem);
            answers[t] = c.problem;
        }
        compare_rows(study, answers);
        attention_case_free(&c);
    }
}

/* --------------------------------------------------------------------------------- tables -- */

static void print_error(const struct error *error)
{
    printf(" %.3g; %.2g; %.1f |", error->max, error->sum / error->count,
           100 * error->within_2 / error->count);
}

static void print_output(int output)
{
    printf("\n| %s | textbook |", OUTPUT_NAMES[output]);
    for (int t = 0; t < computer_count; t++)
        printf(" %s, %s |", attn_kernels_name(computers[t].kernels),
               attn_precision_name(computers[t].precision));
    printf("\n|---|---|");
    for (int t = 0; t < computer_count; t++)
        printf("---|");
    for (int s = 0; s < STUDY_COUNT; s++) {
        printf("\n| %s |", STUDIES[s].name);
        print_error(&errors[s][TEXTBOOK][output]);
        for (int t = 0; t < computer_count; t++)
            print_error(&errors[s][t][output]);
    }
    printf("\n");
}

/* ----------------------------------------------------------------------------- functions -- */

enum { LANES_MAX = 16, STRIDE = 101 };

static void call_exp(const struct attn_kernels *kernels, float *numbers)
{
    float max[LANES_MAX] = { 0 }, sum[LANES_MAX] = { 0 }, rescale[LANES_MAX];

    kernels->softmax_tile(numbers, max, sum, rescale, 1, kernels->lanes);
}

static void call_softcap(const struct attn_kernels *kernels, float *numbers)
{
    kernels->softcap_tile(numbers, 1, 1, kernels->lanes);
}

static void call_additive(const struct attn_kernels *kernels, float *numbers)
{
    static const float zero, one = 1;
    float query[LANES_MAX];

    memcpy(query, numbers, sizeof query);
    kernels->additive_tile(numbers, query, &zero, 1, &one, 1, 1, 1, kernels->lanes);
}

/* Tries one float of STRIDE from -low to -high; low and high are positive. */
static void print_function(const char *name, const struct attn_kernels *kernels, float low,
                           float high, double (*truth)(double),
                           void (*call)(const struct attn_kernels *kernels, float *numbers))
{
    struct error error = { 0 };
    uint32_t bits, end;

    memcpy(&end, &high, sizeof end);
    for (memcpy(&bits, &low, sizeof bits); bits < end; bits += STRIDE * LANES_MAX) {
        float x[LANES_MAX], y[LANES_MAX];
        for (uint32_t i = 0; i < LANES_MAX; i++) {
            const uint32_t at = bits + i * STRIDE;
            memcpy(&x[i], &at, sizeof at);
            x[i] = y[i] = -x[i];
        }
        call(kernels, y);
        for (int64_t i = 0; i < kernels->lanes; i++) {
            const double want = truth((double)x[i]);
            add_error(&error, (double)y[i], want, last_place(want));
        }
    }
    printf("| %s | %s | %.3g; %.2g |\n", name, attn_kernels_name(kernels), error.max,
           error.sum / error.count);
}

static void print_functions(void)
{
    const struct attn_kernels *const *tables = attn_kernels_available();

    printf("\n| function | table | greatest; mean |\n|---|---|---|\n");
    for (int t = 0; tables[t] != NULL; t++) {
        print_function("exp, 0 to -87.3", tables[t], FLT_MIN, 87.3f, exp, call_exp);
        print_function("tanh of softcap", tables[t], FLT_MIN, 20, tanh, call_softcap);
        print_function("tanh of additive", tables[t], FLT_MIN, 20, tanh, call_additive);
    }
}

/* --------------------------------------------------------------------------- projections -- */

enum { INPUTS_MAX = 4096, OUTPUTS_MADE = 64, ROWS = 64 };

struct projection {
    int64_t inputs;
    const float *x, *parameters; /* [ROWS, inputs], [OUTPUTS_MADE, inputs] */
    long double truth[ROWS][OUTPUTS_MADE];
    float y[ROWS][OUTPUTS_MADE];
};

static void compare_projected(const struct projection *projection)
{
    struct error error = { 0 };

    for (int i = 0; i < ROWS; i++) {
        const double unit = last_place(greatest(projection->truth[i], OUTPUTS_MADE));
        for (int o = 0; o < OUTPUTS_MADE; o++)
            add_error(&error, (double)projection->y[i][o], projection->truth[i][o], unit);
    }
    print_error(&error);
}

/* The truth, and what a loop in float makes of it. */
static void project_textbook(struct projection *projection)
{
    for (int i = 0; i < ROWS; i++)
        for (int o = 0; o < OUTPUTS_MADE; o++) {
            const float *x = projection->x + i * projection->inputs;
            const float *parameters = projection->parameters + o * projection->inputs;
            projection->y[i][o] = 0;
            projection->truth[i][o] = 0;
            for (int64_t c = 0; c < projection->inputs; c++) {
                projection->y[i][o] += x[c] * parameters[c];
                projection->truth[i][o] += (long double)x[c] * (long double)parameters[c];
            }
        }
}

static void project(const struct attn_kernels *kernels, struct projection *projection)
{
    static float work[ATTN_PROJECT_WORK];
    const float *x[ROWS];
    float *y[ROWS];

    for (int i = 0; i < ROWS; i++) {
        x[i] = projection->x + i * projection->inputs;
        y[i] = projection->y[i];
    }
    kernels->project_by_outputs[ATTN_NUMBERS_F32](y, x, ROWS, projection->parameters,
                                                  projection->inputs, NULL, OUTPUTS_MADE,
                                                  projection->inputs, work);
}

/* Parameters of 16 bits give the bits of the same numbers in F32, and a row has the bits that it
 * has alone. So there is one line for each number of inputs. */
static void print_projections(void)
{
    static const int64_t inputs[] = { 768, INPUTS_MAX };
    const struct attn_kernels *const *tables = attn_kernels_available();
    static float x[ROWS * INPUTS_MAX], parameters[OUTPUTS_MADE * INPUTS_MAX];
    static struct projection projection = { .x = x, .parameters = parameters };
    struct fill fill = { 1 };

    for (int i = 0; i < ROWS * INPUTS_MAX; i++)
        x[i] = normal(&fill);
    for (int i = 0; i < OUTPUTS_MADE * INPUTS_MAX; i++)
        parameters[i] = normal(&fill);
    printf("\n| projection | textbook |");
    for (int t = 0; tables[t] != NULL; t++)
        printf(" %s |", attn_kernels_name(tables[t]));
    printf("\n|---|---|");
    for (int t = 0; tables[t] != NULL; t++)
        printf("---|");
    for (size_t s = 0; s < sizeof inputs / sizeof inputs[0]; s++) {
        projection.inputs = inputs[s];
        printf("\n| %d inputs |", (int)inputs[s]);
        project_textbook(&projection);
        compare_projected(&projection);
        for (int t = 0; tables[t] != NULL; t++) {
            project(tables[t], &projection);
            compare_projected(&projection);
        }
    }
    printf("\n");
}

int main(void)
{
    list_computers();
    for (int s = 0; s < STUDY_COUNT; s++)
        run_study(&STUDIES[s]);
    printf(
        "The greatest error, the mean, and how many of 100 are within 2 units in the last place\n");
    for (int output = 0; output < OUTPUTS; output++)
        print_output(output);
    print_functions();
    print_projections();
    return 0;
}
