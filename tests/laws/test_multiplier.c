/* SPDX-License-Identifier: Apache-2.0 */
/* test_multiplier.c - a function of the caller's that multiplies in place of kernels (linear.h), on
 * each type of core of OpenBLAS: gradients of weights have the same bits in any order of tasks, by
 * any number of threads and wherever numbers lie, errors of a loop in float or smaller, and rows
 * that nothing sees do not count; products of rows have the bits of the kernels. */
#include "blas_cores.h"
#include "fill.h"
#include "guard.h"
#include "kernel_tables.h"
#include "linear.h"
#include "problem_count.h"

#include "layer/layer_gradient_internal.h"

#include <pthread.h>
#include <stdatomic.h>

static const struct attn_multiplier MULTIPLIER = { .multiply = blas_multiply,
                                                   .multiplies_gradients = true,
                                                   .rows_min = 4 };

static const struct attn_kernels *with_multiplier(const struct attn_kernels *kernels)
{
    static void *memory;
    if (!memory)
        memory = malloc(attn_kernels_given_bytes());
    assert_non_null(memory);
    return attn_kernels_given(memory, kernels, &MULTIPLIER);
}

static const struct attn_kernels *generic(void)
{
    const struct attn_kernels *const *table = attn_kernels_available();
    while (strcmp(attn_kernels_name(*table), "generic") != 0)
        table++;
    return *table;
}

/* --------------------------------------------------------------------------- gradients -- */

enum { COUNT_MAX = 300, OUT_MAX = 300, IN_MAX = 200 };

/* dy, x and the weight's gradient at the ends of guarded memory, the linear that they belong to. */
struct gradient_case {
    struct guard_buffer dy, x, weight;
    struct attn_linear linear;
    struct attn_projected_rows rows;
};

static struct gradient_case make_case(uint64_t seed, int64_t count_max)
{
    struct fill fill = { seed };
    struct gradient_case c = { .linear = { .out = 1 + fill_below(&fill, OUT_MAX),
                                           .in = 1 + fill_below(&fill, IN_MAX),
                                           .in_out = fill_below(&fill, 2) == 0 } };
    const int64_t count = 1 + fill_below(&fill, count_max);
    c.dy = guard_alloc((size_t)(count * c.linear.out) * sizeof(float));
    c.x = guard_alloc((size_t)(count * c.linear.in) * sizeof(float));
    c.weight = guard_alloc((size_t)(c.linear.in * c.linear.out) * sizeof(float));
    fill_floats(&fill, c.dy.data, count * c.linear.out, -1, 1);
    fill_floats(&fill, c.x.data, count * c.linear.in, -1, 1);
    c.rows = (struct attn_projected_rows){ c.dy.data, c.x.data, count };
    return c;
}

static void free_case(struct gradient_case *c)
{
    guard_free(&c->dy);
    guard_free(&c->x);
    guard_free(&c->weight);
}

static int64_t tasks_of(const struct gradient_case *c)
{
    const struct attn_linear_gradient wanted = { .weight = c->weight.data };
    return attn_linear_task_counts(generic(), &c->linear, &wanted, NULL, 0).weight;
}

static void *make_workspace(void)
{
    void *workspace = aligned_alloc(64, attn_weight_gradient_workspace_bytes() / 64 * 64 + 64);
    if (!workspace)
        abort();
    return workspace;
}

static void run(const struct gradient_case *c, const struct attn_kernels *kernels, bool in_reverse)
{
    const int64_t tasks = tasks_of(c);
    void *workspace = make_workspace();
    for (int64_t i = 0; i < tasks; i++)
        attn_weight_gradient_run(kernels, &c->linear, &c->rows, c->weight.data,
                                 in_reverse ? tasks - 1 - i : i, workspace);
    free(workspace);
}

static size_t weight_bytes(const struct gradient_case *c)
{
    return (size_t)(c->linear.in * c->linear.out) * sizeof(float);
}

/* The same numbers, a float further from every boundary. */
static struct gradient_case moved(const struct gradient_case *from)
{
    struct gradient_case c = *from;
    const size_t dy = (size_t)(c.rows.count * c.linear.out),
                 x = (size_t)(c.rows.count * c.linear.in);
    c.dy = guard_alloc((dy + 1) * sizeof(float));
    c.x = guard_alloc((x + 1) * sizeof(float));
    c.weight = guard_alloc(weight_bytes(from));
    memcpy(c.dy.data, from->dy.data, dy * sizeof(float));
    memcpy(c.x.data, from->x.data, x * sizeof(float));
    c.rows.dy = c.dy.data;
    c.rows.x = c.x.data;
    return c;
}

TEST(gradients_have_the_same_bits_in_any_order_and_place)
{
    for (uint64_t i = 0; i < problem_count(40); i++) {
        const struct attn_kernels *kernels = with_multiplier(kernel_table_of_turn(i));
        struct gradient_case here = make_case(7000 + i, COUNT_MAX), there = moved(&here);
        run(&here, kernels, false);
        run(&there, kernels, true);
        assert_memory_equal(here.weight.data, there.weight.data, weight_bytes(&here));
        free_case(&here);
        free_case(&there);
    }
}

struct shared_run {
    const struct gradient_case *c;
    const struct attn_kernels *kernels;
    int64_t tasks;
    _Atomic int64_t next;
};

static void *take_tasks(void *argument)
{
    struct shared_run *shared = argument;
    void *workspace = make_workspace();
    for (int64_t task; (task = atomic_fetch_add(&shared->next, 1)) < shared->tasks;)
        attn_weight_gradient_run(shared->kernels, &shared->c->linear, &shared->c->rows,
                                 shared->c->weight.data, task, workspace);
    free(workspace);
    return NULL;
}

TEST(gradients_have_the_same_bits_by_any_number_of_threads)
{
    enum { THREADS_MAX = 4 };
    const struct attn_kernels *kernels = with_multiplier(attn_kernels_available()[0]);
    for (uint64_t i = 0; i < problem_count(12); i++) {
        struct gradient_case c = make_case(7500 + i, COUNT_MAX), by_threads = moved(&c);
        pthread_t threads[THREADS_MAX];
        const int thread_count = 2 + (int)i % (THREADS_MAX - 1);
        struct shared_run shared = { &by_threads, kernels, tasks_of(&c), 0 };
        run(&c, kernels, false);
        for (int t = 0; t < thread_count; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, take_tasks, &shared), 0);
        for (int t = 0; t < thread_count; t++)
            pthread_join(threads[t], NULL);
        assert_memory_equal(c.weight.data, by_threads.weight.data, weight_bytes(&c));
        free_case(&c);
        free_case(&by_threads);
    }
}

static void add_errors(const struct gradient_case *c, double *of_multiplier, double *of_loop)
{
    const float *weight = c->weight.data;
    for (int64_t o = 0; o < c->linear.out; o++)
        for (int64_t i = 0; i < c->linear.in; i++) {
            double exact = 0;
            float loop = 0;
            for (int64_t r = 0; r < c->rows.count; r++) {
                const float dy = c->rows.dy[r * c->linear.out + o];
                const float x = c->rows.x[r * c->linear.in + i];
                exact += (double)dy * (double)x;
                loop += dy * x;
            }
            const double error =
                (double)weight[c->linear.in_out ? i * c->linear.out + o : o * c->linear.in + i]
                - exact;
            *of_multiplier += error * error;
            *of_loop += ((double)loop - exact) * ((double)loop - exact);
        }
}

TEST(gradients_are_as_exact_as_a_loop_in_float)
{
    double of_multiplier = 0, of_loop = 0;
    for (uint64_t i = 0; i < 6; i++) {
        struct gradient_case c = make_case(8000 + i, 4 * COUNT_MAX);
        run(&c, with_multiplier(attn_kernels_available()[0]), false);
        add_errors(&c, &of_multiplier, &of_loop);
        free_case(&c);
    }
    print_message("%s: %.2f of the errors of a loop in float\n", openblas_get_corename(),
                  sqrt(of_multiplier / of_loop));
    assert_true(of_multiplier <= of_loop);
}

TEST(rows_that_nothing_sees_do_not_count)
{
    for (uint64_t i = 0; i < 10; i++) {
        struct gradient_case clean = make_case(8500 + i, COUNT_MAX);
        struct gradient_case dirty = moved(&clean);
        const int64_t row = clean.rows.count / 2;
        float *const xs[] = { clean.x.data, dirty.x.data }, *const dys[] = { clean.dy.data,
                                                                             dirty.dy.data };
        for (int k = 0; k < 2; k++) {
            memset(dys[k] + row * clean.linear.out, 0, (size_t)clean.linear.out * sizeof(float));
            for (int64_t c = 0; c < clean.linear.in; c++)
                xs[k][row * clean.linear.in + c] = k == 0 ? 0 : c % 2 ? NAN : INFINITY;
        }
        const struct attn_kernels *kernels = with_multiplier(kernel_table_of_turn(i));
        run(&clean, kernels, false);
        run(&dirty, kernels, false);
        const float *a = clean.weight.data, *b = dirty.weight.data;
        for (int64_t k = 0; k < clean.linear.in * clean.linear.out; k++)
            assert_true(fabs((double)a[k] - (double)b[k]) <= 1e-4);
        free_case(&clean);
        free_case(&dirty);
    }
}

/* --------------------------------------------------------------------- products of rows -- */

enum { ROWS_MAX = 140, INPUTS_MAX = 600, OUTPUTS_MAX = 300, GAP = 3 };

static struct {
    float weight[2][(INPUTS_MAX + GAP) * (OUTPUTS_MAX + GAP)], bias[OUTPUTS_MAX];
    float x[ROWS_MAX * INPUTS_MAX], y[ROWS_MAX * OUTPUTS_MAX], again[ROWS_MAX * OUTPUTS_MAX];
} data;

static struct attn_linear random_linear(struct fill *fill, const float *weight, int64_t out,
                                        int64_t in)
{
    const bool in_out = fill_below(fill, 2) == 0;
    return (struct attn_linear){ .weight = weight,
                                 .bias = fill_below(fill, 2) == 0 ? data.bias : NULL,
                                 .out = out,
                                 .in = in,
                                 .in_out = in_out,
                                 .stride = (in_out ? out : in) + fill_below(fill, GAP + 1),
                                 .dtype = ATTN_F32 };
}

static void run_product(struct attn_product product, const struct attn_kernels *kernels, float *y)
{
    product.kernels = kernels;
    product.y = y;
    void *workspace = aligned_alloc(64, attn_product_workspace_bytes(&product) / 64 * 64 + 64);
    assert_non_null(workspace);
    for (int64_t task = attn_product_tasks(&product); task-- > 0;)
        attn_product_run(&product, task, workspace);
    free(workspace);
}

/* Where the kernels of OpenBLAS are one chain of multiply-adds, fused where ours are. */
static bool has_our_chains(void)
{
#ifdef __x86_64__
    return blas_core_is("Sandybridge");
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

TEST(products_of_rows_have_the_bits_of_the_kernels)
{
    if (!has_our_chains())
        return;
    const struct attn_kernels *own = generic(), *given = with_multiplier(own);
    for (uint64_t i = 0; i < problem_count(60); i++) {
        struct fill fill = { 9000 + i };
        const int64_t in = 1 + fill_below(&fill, INPUTS_MAX),
                      out = 1 + fill_below(&fill, OUTPUTS_MAX);
        const int64_t rows = 1 + fill_below(&fill, ROWS_MAX);
        const struct attn_linear linear = random_linear(&fill, data.weight[0], out, in);
        const struct attn_linear gate = random_linear(&fill, data.weight[1], out, in);
        const bool is_gated = fill_below(&fill, 3) == 0;
        struct attn_product product = { .linear = &linear,
                                        .gate = is_gated ? &gate : NULL,
                                        .activation = is_gated ? ATTN_SILU : ATTN_NO_ACTIVATION,
                                        .x = data.x,
                                        .x_stride = in,
                                        .y_stride = out,
                                        .row_count = rows };
        fill_floats(&fill, data.x, rows * in, -1, 1);
        fill_floats(&fill, data.bias, out, -1, 1);
        for (int k = 0; k < 2; k++)
            fill_floats(&fill, data.weight[k], (in + GAP) * (out + GAP), -1, 1);
        run_product(product, own, data.y);
        run_product(product, given, data.again);
        assert_memory_equal(data.y, data.again, (size_t)(rows * out) * sizeof(float));

        const int64_t row = fill_below(&fill, rows);
        product.x += row * in;
        product.row_count = 1;
        run_product(product, given, data.again);
        assert_memory_equal(data.y + row * out, data.again, (size_t)out * sizeof(float));
    }
}

int main(void)
{
    return blas_cores_main();
}
