/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_edits.c - any bytes as the body of a trace with edits, which is read, planned and computed.
 *
 * The first byte chooses the model, a Llama whose heads share keys or a T5 with its three kinds of
 * layers, and whether a trace is kept that `from` may name "k". Any bytes must end in a fault with
 * a message, or in a pass to its end; and a body without its edits gives a pass as well. */
#include "operations/plan/trace_plan.h"
#include "operations/trace.h"
#include "published.h"
#include "request.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORKER_BYTES = 1 << 20, ROWS_MAX = 48, LAYERS = 2 };

/* ------------------------------------------------------------------------- models -- */

#define LLAMA "model.layers.#."
static const char LLAMA_CONFIG[] =
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":12,"
    "\"vocab_size\":10,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\"}";
static const char LLAMA_TENSORS[] =
    LLAMA "self_attn.q_proj.weight 8x8, " LLAMA "self_attn.k_proj.weight 4x8, " LLAMA
          "self_attn.v_proj.weight 4x8, " LLAMA "self_attn.o_proj.weight 8x8, " LLAMA
          "mlp.gate_proj.weight 12x8, " LLAMA "mlp.up_proj.weight 12x8, " LLAMA
          "mlp.down_proj.weight 8x12, " LLAMA "input_layernorm.weight 8, " LLAMA
          "post_attention_layernorm.weight 8, "
          "model.embed_tokens.weight 10x8, model.norm.weight 8, lm_head.weight 10x8";

#define ENCODER "encoder.block.#.layer."
#define DECODER "decoder.block.#.layer."
#define ATTENTION(begin)                                                                           \
    begin "q.weight 6x8, " begin "k.weight 6x8, " begin "v.weight 6x8, " begin "o.weight 8x6, "
#define FEED(begin) begin "DenseReluDense.wi.weight 12x8, " begin "DenseReluDense.wo.weight 8x12, "
#define NORM(begin) begin "layer_norm.weight 8, "
#define BIAS(stack) stack ".block.0.layer.0.SelfAttention.relative_attention_bias.weight 8x2, "
static const char T5_CONFIG[] =
    "{\"model_type\":\"t5\",\"d_model\":8,\"d_kv\":3,\"num_heads\":2,\"num_layers\":2,"
    "\"d_ff\":12,\"vocab_size\":10,\"relative_attention_num_buckets\":8,"
    "\"relative_attention_max_distance\":5,\"decoder_start_token_id\":0}";
static const char T5_TENSORS[] =
    "shared.weight 10x8, " BIAS("encoder") ATTENTION(ENCODER "0.SelfAttention.") NORM(ENCODER "0.")
        FEED(ENCODER "1.") NORM(ENCODER "1.") "encoder.final_layer_norm.weight 8, " BIAS("decoder")
            ATTENTION(DECODER "0.SelfAttention.") NORM(DECODER "0.")
                ATTENTION(DECODER "1.EncDecAttention.") NORM(DECODER "1.") FEED(DECODER "2.")
                    NORM(DECODER "2.") "decoder.final_layer_norm.weight 8";

static const struct {
    const char *config, *tensors;
    const char *kept; /* the body of a trace for `from` */
} MODELS[] = {
    { LLAMA_CONFIG, LLAMA_TENSORS, "{\"tokens\":[1,2,3,4,5],\"keep\":\"1m\",\"states\":true}" },
    { T5_CONFIG, T5_TENSORS,
      "{\"tokens\":[1,2,3,4],\"decoder_tokens\":[5,6,7],\"keep\":\"1m\",\"states\":true}" },
};

/* --------------------------------------------------------------------------- a pass -- */

static const struct infer_limits *limits(void)
{
    static struct infer_limits of_all;
    of_all = (struct infer_limits){ .kernels = attn_kernels_available()[0],
                                    .worker_count = 1,
                                    .workspace_bytes = WORKER_BYTES,
                                    .answer_bytes_max = 1 << 24,
                                    .scratch_bytes_max = 1 << 26 };
    return &of_all;
}

static const struct worker *worker(void)
{
    static struct worker only = { .workspace_bytes = WORKER_BYTES };
    if (!only.workspace)
        only.workspace = aligned_alloc(64, WORKER_BYTES);
    require(only.workspace != NULL);
    return &only;
}

static void run_group(const struct pass_group *group)
{
    struct fault fault = { .code = FAULT_NONE };
    struct attn_work work = { 0 };
    struct arena arena;
    struct pass *pass = NULL;
    arena_init(&arena, limits()->scratch_bytes_max);
    require(pass_create(&pass, &arena, group, limits(), &work, &fault));
    for (int64_t count; (count = pass_tasks(pass, &fault)) > 0;)
        for (int64_t task = 0; task < count; task++)
            pass_run(pass, task, worker());
    require(fault.code == FAULT_NONE);
    pass_end(pass);
    arena_free(&arena);
}

/* Whether the request is what a fuzzer should wait for. */
static bool is_small(const struct trace_item *item)
{
    int64_t rows = item->token_count + item->decoder_token_count;
    if (item->embeddings.data)
        rows += item->embeddings.shape[0];
    return rows <= ROWS_MAX && !item->model_name && !item->text.data && !item->decoder_text.data;
}

static void name_kept(struct trace_item *item, const char *id)
{
    for (int64_t i = 0; i < item->edit_count; i++)
        if (item->edits[i].from_trace && strcmp(item->edits[i].from_trace, "k") == 0)
            item->edits[i].from_trace = id;
}

static bool compute(struct trace_request *request, struct kept_store *store, const char *id,
                    struct fault *fault)
{
    struct trace_groups groups = { .count = 0 };
    struct attn_work work = { 0 };
    request->kept = store;
    for (int64_t i = 0; i < request->item_count; i++) {
        if (!is_small(&request->items[i]))
            return fault_set(fault, FAULT_OPTION, "too large for a fuzzer");
        request->items[i].model = model_retain(published_model());
        name_kept(&request->items[i], id);
    }
    if (!trace_plan(request, &groups, limits(), fault)
        || !trace_keep_plan(request, store, NULL, &work, fault))
        return false;
    for (int64_t i = 0; i < groups.count; i++)
        run_group(&groups.groups[i]);
    require(trace_keep_tasks(request) == 0); /* maps so small have no levels */
    return trace_keep_publish(request, store, fault);
}

/* ------------------------------------------------------------------------- a request -- */

/* Reads a body and computes it. kept: where the id of a kept trace goes. */
static void trace(const void *body, size_t size, struct kept_store *store, const char *id,
                  char kept[TRACE_ID_MAX + 1])
{
    struct fault fault = { .code = FAULT_NONE };
    struct trace_request request = { .items = NULL };
    struct call call = {
        .work = &request,
        .operation = &trace_single,
        .form.format = &format_json,
        .body_memory = malloc(size + 1),
    };
    require(call.body_memory != NULL);
    memcpy(call.body_memory, body, size);
    call.body = (struct byte_slice){ call.body_memory, size };
    request.arena = &call.arena;
    arena_init(request.arena, 1 << 26);
    const bool good = call.operation->read(&call, &fault) && compute(&request, store, id, &fault);
    require(good == (fault.code == FAULT_NONE) && (good || fault.message[0] != '\0'));
    if (kept && good)
        memcpy(kept, request.items[0].kept, TRACE_ID_MAX + 1);
    trace_keep_drop(&request, store, !good);
    call_drop_body(&call);
    format_body_free(&call.form);
    trace_request_free(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char id[TRACE_ID_MAX + 1] = "";
    if (size == 0)
        return 0;
    const int which = data[0] & 1;
    struct kept_store *store = kept_store_create(1 << 20);
    require(store != NULL);
    published_open(MODELS[which].config, MODELS[which].tensors, LAYERS, "F32");
    if ((data[0] & 2) != 0) {
        trace(MODELS[which].kept, strlen(MODELS[which].kept), store, "", id);
        require(id[0] != '\0');
    }
    trace(data + 1, size - 1, store, id, NULL);
    kept_store_free(store);
    published_close();
    return 0;
}
