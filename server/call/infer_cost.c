/* SPDX-License-Identifier: Apache-2.0 */
/* infer_cost.c - see infer_cost.h. */
#include "call/infer_cost.h"

#include "base/clock.h"
#include "call/infer_distances.h"
#include "call/infer_gradient.h"
#include "call/infer_masking.h"
#include "call/infer_results.h"
#include "call/service.h"

#include <stdlib.h>

/* A phase with a longer prediction is always measured, a shorter one once in SOMETIMES times. That
 * is a prime number; else the same phase of similar requests would be measured each time. */
static const int64_t ALWAYS_NS = 200000;
enum { SOMETIMES = 61 };

static const double TEXT_BYTES = 11; /* of a number, a guess */

static bool is_to_be_measured(int64_t ns)
{
    static _Thread_local unsigned count;
    return ns >= ALWAYS_NS || ++count % SOMETIMES == 0;
}

static void settle(struct infer_cost *cost, enum infer_phase phase)
{
    cost->ns[phase] = cost_ns(&cost->phases[phase]);
    cost->measured[phase] = is_to_be_measured(cost->ns[phase]);
}

/* The bytes of a body that are JSON: those of the header of a binary body, or all. */
static double json_bytes(const struct exchange *exchange, double bytes)
{
    const char *length = exchange_header(exchange, HTTP_HEADER_INFERENCE_LENGTH);
    const double header = length ? strtod(length, NULL) : bytes;
    if (!length && !service_is_json(exchange))
        return 0;
    return header >= 0 && header < bytes ? header : bytes;
}

void infer_cost_read(struct infer_cost *cost, const struct exchange *exchange,
                     size_t unpacked_bytes)
{
    double *amount = cost->phases[INFER_READ].amount;
    const double bytes = (double)unpacked_bytes;
    if (exchange_body_coding(exchange) != CODING_IDENTITY)
        amount[COST_UNPACK] = bytes;
    amount[COST_REQUEST] = 1;
    amount[COST_READ_TEXT] = json_bytes(exchange, bytes);
    amount[COST_READ_BYTES] = bytes - amount[COST_READ_TEXT];
    settle(cost, INFER_READ);
}

void infer_cost_measure_reading(struct infer_cost *cost)
{
    cost->measured[INFER_READ] = true;
}

/* Whether the phase is measured stays as it is: the stopwatch may be running. */
void infer_cost_was_unpacked(struct infer_cost *cost, size_t unpacked_bytes)
{
    double *amount = cost->phases[INFER_READ].amount;
    const double bytes = (double)unpacked_bytes;
    amount[COST_UNPACK] = bytes;
    if (amount[COST_READ_BYTES] == 0 || amount[COST_READ_TEXT] > bytes)
        amount[COST_READ_TEXT] = bytes;
    amount[COST_READ_BYTES] = bytes - amount[COST_READ_TEXT];
    cost->ns[INFER_READ] = cost_ns(&cost->phases[INFER_READ]);
}

void infer_cost_was_tokenized(struct infer_cost *cost, size_t bytes)
{
    cost->phases[INFER_READ].amount[COST_TOKENIZE] = (double)bytes;
    cost->ns[INFER_READ] = cost_ns(&cost->phases[INFER_READ]);
}

/* The parameters of a product are in a cache if those of the layer are. */
static void split_products(struct infer_cost *cost, const struct infer_item *item)
{
    const bool is_far = cost->phases[INFER_COMPUTE].amount[COST_PARAMETER_FAR] > 0;
    for (int product = ATTN_PRODUCT_INPUTS; product <= ATTN_PRODUCT_OUTPUT; product++) {
        struct attn_work work = { 0 };
        double *amount = cost->products[product].amount;
        attn_layer_product_work(&item->plan, (enum attn_layer_product)product, &work);
        amount[COST_PROJECT] = work.projection_flops;
        amount[is_far ? COST_PARAMETER_FAR : COST_PARAMETER] = work.parameter_bytes;
    }
}

/* What a bias of relative positions needs of query and key is projected where the request is read;
 * then it is filled. */
static void add_bias(struct infer_cost *cost, const struct infer_item *item)
{
    struct attn_work read = { 0 }, computed = { 0 };
    if (!item->bias_sum)
        return;
    infer_distances_work(item, item->plan.problem.kernels, &read);
    infer_bias_work(item, &computed);
    cost_add_work(&cost->phases[INFER_READ], &read);
    cost_add_work(&cost->phases[INFER_COMPUTE], &computed);
}

static void add_item(struct infer_cost *cost, const struct infer_request *request,
                     const struct infer_item *item)
{
    struct attn_work work = { 0 };
    double *written = cost->phases[INFER_WRITE].amount;
    const double bytes = (double)item->answer_bytes;
    if (item->fault.code != FAULT_NONE)
        return;
    if (item->gradient)
        attn_layer_gradient_work(&item->gradient->plan, &work);
    else
        attn_layer_work(&item->plan, &work);
    cost_add_work(&cost->phases[INFER_COMPUTE], &work);
    add_bias(cost, item);
    if (!item->gradient && request->item_count == 1)
        split_products(cost, item);
    if (request->number_bytes)
        written[COST_WRITE_BYTES] += bytes;
    else
        written[COST_WRITE_TEXT] += bytes / (double)infer_number_bytes(request);
}

/* Called when the amounts of computing and writing are set. */
static void settle_plan(struct infer_cost *cost, enum coding answer_coding)
{
    settle(cost, INFER_COMPUTE);
    settle(cost, INFER_WRITE);
    if (answer_coding == CODING_IDENTITY)
        return;
    const double *written = cost->phases[INFER_WRITE].amount;
    cost->phases[INFER_PACK].amount[COST_PACK] =
        written[COST_WRITE_TEXT] * TEXT_BYTES + written[COST_WRITE_BYTES] / 2;
    settle(cost, INFER_PACK);
}

void infer_cost_plan_softmax(struct infer_cost *cost, int64_t numbers, enum coding answer_coding)
{
    cost->phases[INFER_COMPUTE].amount[COST_SOFTMAX] = (double)numbers;
    cost->phases[INFER_WRITE].amount[COST_WRITE_TEXT] = (double)numbers;
    settle_plan(cost, answer_coding);
}

void infer_cost_plan_work(struct infer_cost *cost, const struct attn_work *work, int64_t item_count,
                          size_t answer_bytes, size_t number_bytes, enum coding answer_coding)
{
    double *written = cost->phases[INFER_WRITE].amount;
    cost->phases[INFER_READ].amount[COST_ITEM] = (double)item_count;
    cost->ns[INFER_READ] = cost_ns(&cost->phases[INFER_READ]);
    cost_add_work(&cost->phases[INFER_COMPUTE], work);
    if (number_bytes)
        written[COST_WRITE_BYTES] = (double)answer_bytes;
    else
        written[COST_WRITE_TEXT] = (double)answer_bytes / INFER_ANSWER_BYTES_PER_NUMBER;
    cost->flops = cost_flops(&cost->phases[INFER_COMPUTE]);
    settle_plan(cost, answer_coding);
}

void infer_cost_plan_tokens(struct infer_cost *cost, int64_t bytes, enum coding answer_coding)
{
    cost->phases[INFER_COMPUTE].amount[COST_TOKENIZE] = (double)bytes;
    cost->phases[INFER_WRITE].amount[COST_WRITE_TEXT] = (double)bytes;
    settle_plan(cost, answer_coding);
}

void infer_cost_plan(struct infer_cost *cost, const struct infer_request *request,
                     enum coding answer_coding)
{
    cost->phases[INFER_READ].amount[COST_ITEM] = (double)request->item_count;
    for (int64_t i = 0; i < request->item_count; i++)
        add_item(cost, request, &request->items[i]);
    cost->ns[INFER_READ] = cost_ns(&cost->phases[INFER_READ]);
    cost->flops = cost_flops(&cost->phases[INFER_COMPUTE]);
    settle_plan(cost, answer_coding);
}

static int64_t answer_ns(const struct infer_cost *cost)
{
    return cost->ns[INFER_WRITE] + cost->ns[INFER_PACK];
}

int64_t infer_cost_left_ns(const struct infer_cost *cost)
{
    return cost->ns[INFER_COMPUTE] - cost->saved_ns + answer_ns(cost);
}

int64_t infer_cost_ns(const struct infer_cost *cost)
{
    return cost->ns[INFER_READ] + infer_cost_left_ns(cost);
}

static int64_t by_size_ns(const struct infer_cost *cost, const struct service *service)
{
    int64_t ns = 0;
    if (!admission_weighs_size(service))
        return 0;
    for (int phase = 0; phase < INFER_PHASE_COUNT; phase++)
        if (cost->ns[phase] > 0) /* else the phase is not known yet */
            ns += cost_by_size_ns(&cost->phases[phase]);
    return ns < COST_NS_MAX ? ns : COST_NS_MAX;
}

struct admission_cost infer_cost_to_admit(const struct infer_cost *cost,
                                          const struct service *service)
{
    return (struct admission_cost){ infer_cost_ns(cost), by_size_ns(cost, service) };
}

struct admission_cost infer_cost_left_to_admit(const struct infer_cost *cost,
                                               const struct service *service)
{
    return (struct admission_cost){ infer_cost_left_ns(cost), by_size_ns(cost, service) };
}

/* --------------------------------------------------------------- batches -- */

void infer_cost_expect_part(struct infer_cost *cost, enum attn_layer_product product, double part)
{
    cost->saved_ns += (int64_t)((1 - part) * (double)cost_parameters_ns(&cost->products[product]));
}

int64_t infer_cost_joined_ns(const struct infer_cost *cost, enum attn_layer_product product)
{
    const struct cost *computed =
        product == ATTN_PRODUCT_OUTPUT ? &cost->products[product] : &cost->phases[INFER_COMPUTE];
    return cost_ns(computed) - cost_parameters_ns(&cost->products[product]) + answer_ns(cost);
}

int64_t infer_cost_was_shared(struct infer_cost *cost, enum attn_layer_product product,
                              int64_t paid_ns)
{
    struct cost *computed = &cost->phases[INFER_COMPUTE];
    cost->batched_ns += paid_ns;
    cost_remove(computed, &cost->products[product]);
    return (product == ATTN_PRODUCT_OUTPUT ? 0 : cost_ns(computed)) + answer_ns(cost);
}

bool infer_batch_member(struct batch_member *member, const struct infer_request *request, int stage)
{
    const struct infer_item *item = &request->items[0];
    if (request->item_count != 1 || item->gradient || item->fault.code != FAULT_NONE)
        return false;
    member->product = attn_layer_product(&item->plan, stage);
    if (member->product == ATTN_PRODUCT_NONE)
        return false;
    member->call = (struct attn_layer_call){ &item->plan, item->scratch };
    member->rows = attn_layer_product_rows(&member->call, member->product);
    return true;
}

void infer_batch_expect(struct infer_cost *cost, const struct infer_request *request,
                        struct batcher *batcher)
{
    const int stage_count = request->item_count > 0 ? request->items[0].plan.stage_count : 0;
    for (int stage = 0; stage < stage_count; stage++) {
        struct batch_member member;
        if (infer_batch_member(&member, request, stage))
            infer_cost_expect_part(cost, member.product, batcher_expected_part(batcher, &member));
    }
}

/* ------------------------------------------------------------- measuring -- */

void infer_cost_start(const struct infer_cost *cost, enum infer_phase phase,
                      struct infer_stopwatch *watch)
{
    *watch = (struct infer_stopwatch){ .is_on = cost->measured[phase] };
    if (watch->is_on)
        watch->task = clock_task_begin();
}

void infer_cost_stop(struct infer_cost *cost, enum infer_phase phase,
                     const struct infer_stopwatch *watch)
{
    if (!watch->is_on || !cost->measured[phase]) /* what was planned since is not measured */
        return;
    const int64_t cpu_ns = clock_task_end(&watch->task);
    atomic_fetch_add_explicit(&cost->clock_ns[phase], clock_now_ns() - watch->task.begun_ns,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&cost->cpu_ns[phase], cpu_ns, memory_order_relaxed);
}

/* The amounts of a phase may be other than at its prediction: batches take products away. */
static int64_t used_in_phase(const struct infer_cost *cost, enum infer_phase phase, bool was_begun)
{
    const int64_t cpu_ns = atomic_load_explicit(&cost->cpu_ns[phase], memory_order_relaxed);
    if (cpu_ns > 0 || !was_begun)
        return cpu_ns;
    return cost_ns(&cost->phases[phase]);
}

int64_t infer_cost_used_ns(const struct infer_cost *cost, enum infer_phase last)
{
    int64_t used_ns = cost->batched_ns;
    for (int phase = 0; phase < INFER_PHASE_COUNT; phase++)
        used_ns += used_in_phase(cost, (enum infer_phase)phase, phase <= (int)last);
    return used_ns;
}

void infer_cost_was_packed(struct infer_cost *cost, size_t bytes)
{
    cost->phases[INFER_PACK].amount[COST_PACK] = (double)bytes;
    cost->measured[INFER_PACK] = cost->measured[INFER_PACK] && bytes > 0;
}

void infer_cost_learn(struct infer_cost *cost)
{
    for (int phase = 0; phase < INFER_PHASE_COUNT; phase++) {
        const int64_t cpu_ns = atomic_load(&cost->cpu_ns[phase]);
        if (!cost->measured[phase] || (phase == INFER_COMPUTE && cost->is_less))
            continue;
        cost_observe(&cost->phases[phase], cpu_ns);
        cost_observe_clock(cpu_ns, atomic_load(&cost->clock_ns[phase]));
    }
}
