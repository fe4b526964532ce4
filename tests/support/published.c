/* SPDX-License-Identifier: Apache-2.0 */
/* published.c - see published.h. */
#include "published.h"
#include "test.h"

#include "base/arena.h"
#include "base/dtype.h"
#include "fault_expect.h"
#include "formats/safetensors.h"
#include "made_model.h"
#include "models/store/model_open.h"

#include <inttypes.h>
#include <malloc.h>
#include <sys/stat.h>

enum { TENSORS_MAX = 512, NAME_BYTES = 160, RANK_MAX = 4, DEPTH_MAX = 4 };

static const double TOLERANCE = 2e-5;

static struct {
    struct arena arenas[DEPTH_MAX]; /* of rows; the last one is that of the innermost begin */
    int depth;
    uint64_t hashes[TENSORS_MAX]; /* of names */
    char names[TENSORS_MAX][NAME_BYTES];
    struct rows tensors[TENSORS_MAX];
    int rank[TENSORS_MAX];
    int64_t shape[TENSORS_MAX][RANK_MAX];
    const char *bytes_as[TENSORS_MAX]; /* the dtype of a tensor of bytes; NULL: numbers */
    int count;
    const char *dtype_name;
    enum attn_dtype dtype;
    void *bytes;
    size_t size;
    struct model *model;
} made;

/* ------------------------------------------------------------------ memory -- */

static struct arena *memory(void)
{
    return &made.arenas[made.depth];
}

void published_begin(void)
{
    assert_true(++made.depth < DEPTH_MAX);
    arena_init(memory(), SIZE_MAX);
}

void published_end(void)
{
    assert_true(made.depth > 0);
    arena_free(memory());
    made.depth--;
}

struct rows published_rows(int64_t count, int64_t columns)
{
    const struct rows rows = { count, columns,
                               arena_calloc(memory(), (size_t)(count * columns), sizeof(double)) };
    assert_non_null(rows.data);
    return rows;
}

/* ------------------------------------------------------------------ making -- */

static uint64_t hash_of(const char *text)
{
    uint64_t hash = 1469598103934665603u;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

/* Numbers of about -0.6 to 0.6, which F16 holds as they are. */
static void fill(struct rows rows, const char *seed)
{
    uint64_t state = hash_of(seed);
    for (int64_t i = 0; i < rows.count * rows.columns; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        rows.data[i] = ((double)(state >> 33 & 1023) - 511.5) / 853;
        rows.data[i] = round(rows.data[i] * 1024) / 1024;
    }
}

/* pattern and ending with the layer's number in place of #. A pass asks for thousands of names:
 * with printf() they take as long as its products. */
static void write_name(char name[NAME_BYTES], const char *pattern, const char *ending, int layer)
{
    const size_t size = strlen(pattern), before = strcspn(pattern, "#");
    assert_true(size + strlen(ending) + 2 < NAME_BYTES);
    char *end = mempcpy(name, pattern, before);
    if (before < size) {
        assert_true(layer >= 0 && layer < 100);
        if (layer >= 10)
            *end++ = (char)('0' + layer / 10);
        *end++ = (char)('0' + layer % 10);
        end = stpcpy(end, pattern + before + 1);
    }
    stpcpy(end, ending);
}

/* Turns numbers into bytes: those of a dtype, or SCALES. */
static void set_bytes(int index, const char *kind)
{
    const struct rows rows = made.tensors[index];
    const bool is_scales = strcmp(kind, "SCALES") == 0, is_fp8 = strcmp(kind, "F8_E4M3") == 0;
    made.bytes_as[index] = is_fp8 ? "F8_E4M3" : "U8";
    for (int64_t i = 0; i < rows.count * rows.columns; i++) {
        const int any = (int)(fabs(rows.data[i]) * 1e6);
        rows.data[i] = is_scales ? 120 + any % 4 : is_fp8 ? any % 256 & 191 : any % 256;
    }
}

static void add_tensor(const char *pattern, int layer, const int64_t *shape, int rank, long gain)
{
    const int index = made.count++;
    int64_t columns = shape[rank - 1];
    assert_true(index < TENSORS_MAX);
    write_name(made.names[index], pattern, "", layer);
    made.hashes[index] = hash_of(made.names[index]);
    made.rank[index] = rank;
    memcpy(made.shape[index], shape, sizeof made.shape[index]);
    for (int i = 1; i < rank - 1; i++)
        columns *= shape[i];
    const struct rows rows = published_rows(rank > 1 ? shape[0] : 1, columns);
    fill(rows, made.names[index]);
    for (int64_t i = 0; i < rows.count * rows.columns; i++)
        rows.data[i] *= (double)gain;
    made.tensors[index] = rows;
    made.bytes_as[index] = NULL;
}

/* "a.#.weight 4x3, a.#.bias 4", "b 4x3x2x2*3" */
static void add_tensors(const char *list, int layers)
{
    char *copy = strdup(list), *rest = NULL;
    assert_non_null(copy);
    for (char *item = strtok_r(copy, ", ", &rest); item; item = strtok_r(NULL, ", ", &rest)) {
        char *at = strtok_r(NULL, ", ", &rest);
        int64_t shape[RANK_MAX] = { 0 };
        int rank = 0;
        assert_non_null(at);
        do
            shape[rank++] = strtol(at, &at, 10);
        while (*at++ == 'x' && rank < RANK_MAX);
        const long gain = at[-1] == '*' ? strtol(at, NULL, 10) : 1;
        for (int layer = 0; layer < (strchr(item, '#') ? layers : 1); layer++) {
            add_tensor(item, layer, shape, rank, gain);
            if (at[-1] == ':')
                set_bytes(made.count - 1, at);
        }
    }
    free(copy);
}

/* Writes a file by hand, because it may have another dtype than F32. It has every step-th
 * tensor. */
static void *file_bytes(int first, int step, size_t *size)
{
    size_t used, offset = 0;
    char *header = arena_alloc(memory(), TENSORS_MAX * (size_t)(NAME_BYTES + 128));
    used = (size_t)sprintf(header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = first; i < made.count; i += step) {
        const struct rows *rows = &made.tensors[i];
        const char *bytes_as = made.bytes_as[i];
        const size_t bytes =
            (size_t)(rows->count * rows->columns) * (bytes_as ? 1 : attn_dtype_size(made.dtype));
        used += (size_t)sprintf(header + used, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                                made.names[i], bytes_as ? bytes_as : made.dtype_name);
        for (int r = 0; r < made.rank[i]; r++)
            used +=
                (size_t)sprintf(header + used, "%s%" PRId64, r > 0 ? "," : "", made.shape[i][r]);
        used +=
            (size_t)sprintf(header + used, "],\"data_offsets\":[%zu,%zu]}", offset, offset + bytes);
        offset += bytes;
    }
    header[used++] = '}';
    while (used % 8)
        header[used++] = ' ';
    *size = 8 + used + offset;
    unsigned char *file = malloc(*size);
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)used >> (8 * i));
    memcpy(file + 8, header, used);
    unsigned char *data = file + 8 + used;
    for (int i = first; i < made.count; i += step)
        for (int64_t j = 0; j < made.tensors[i].count * made.tensors[i].columns; j++) {
            const float number = (float)made.tensors[i].data[j];
            if (made.bytes_as[i]) {
                *data++ = (unsigned char)number;
                continue;
            }
            dtype_write(data, made.dtype, &number, 1);
            data += attn_dtype_size(made.dtype);
        }
    return file;
}

/* Passes in double make and free megabytes of rows hundreds of times; their pages stay the
 * process's, because the kernel takes longer to clear them than a pass takes to compute. */
static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

static bool open_checkpoint(const char *config, const char *tensors, int layers, const char *dtype,
                            struct fault *fault)
{
    keep_memory();
    made.depth = 0;
    arena_init(memory(), SIZE_MAX);
    made.count = 0;
    made.model = NULL;
    add_tensors(tensors, layers);
    made.dtype_name = dtype;
    assert_true(dtype_find(dtype, &made.dtype));
    made.bytes = file_bytes(0, 1, &made.size);
    return model_create(&made.model, "m", "test", made.bytes, made.size, config, NULL, NULL, fault);
}

void published_open(const char *config, const char *tensors, int layers, const char *dtype)
{
    struct fault fault;
    if (!open_checkpoint(config, tensors, layers, dtype, &fault))
        fail_msg("%s: %s", config, fault.message);
    for (int i = 0; i < made.count; i++)
        if (made.bytes_as[i])
            return;
    assert_string_equal(made.model->dtype, dtype);
}

bool published_reopen(const char *config, struct fault *fault)
{
    model_release(made.model);
    made.model = NULL;
    return model_create(&made.model, "m", "test", made.bytes, made.size, config, NULL, NULL, fault);
}

void published_close(void)
{
    model_release(made.model);
    free(made.bytes);
    while (made.depth > 0)
        published_end();
    arena_free(memory());
    made.model = NULL;
    made.bytes = NULL;
}

static void save(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[256];
    mkdir(folder, 0755);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    made_model_write(path, bytes, size);
}

void published_save(const char *folder, const char *config)
{
    save(folder, "config.json", config, strlen(config));
    save(folder, "model.safetensors", made.bytes, made.size);
}

void published_save_shards(const char *folder, const char *config)
{
    static const char *const NAMES[] = { "model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors" };
    char *index = arena_alloc(memory(), TENSORS_MAX * (size_t)(NAME_BYTES + 64));
    size_t used = (size_t)sprintf(index, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (int i = 0; i < made.count; i++)
        used += (size_t)sprintf(index + used, "%s\"%s\":\"%s\"", i > 0 ? "," : "", made.names[i],
                                NAMES[i % 2]);
    used += (size_t)sprintf(index + used, "}}");
    save(folder, "config.json", config, strlen(config));
    save(folder, "model.safetensors.index.json", index, used);
    for (int i = 0; i < 2; i++) {
        size_t size;
        void *bytes = file_bytes(i, 2, &size);
        save(folder, NAMES[i], bytes, size);
        free(bytes);
    }
}

void published_refused(const char *config, const char *tensors, int layers, enum fault_code code,
                       const char *words)
{
    struct fault fault;
    if (open_checkpoint(config, tensors, layers, "F32", &fault))
        fail_msg("%s is taken; expected '%s'", config, words);
    fault_expect(config, &fault, code, words, NULL);
    published_close();
}

struct model *published_model(void)
{
    return made.model;
}

bool published_load_shards(const char *folder, struct fault *fault)
{
    char index[256], config[256];
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
    snprintf(config, sizeof config, "%s/config.json", folder);
    model_release(made.model);
    made.model = NULL;
    return model_load(&made.model, "m", folder, index, config, fault);
}

struct rows published_input(int64_t columns)
{
    const struct rows rows = published_rows(PUBLISHED_LENGTH, columns);
    fill(rows, "hidden_states");
    return rows;
}

struct rows published_memory(int64_t columns)
{
    const struct rows rows = published_rows(PUBLISHED_MEMORY, columns);
    fill(rows, "encoder_hidden_states");
    return rows;
}

/* ----------------------------------------------------------------- PyTorch -- */

static const struct rows *find(const char *pattern, const char *ending, int layer)
{
    char name[NAME_BYTES];
    write_name(name, pattern, ending, layer);
    const uint64_t hash = hash_of(name);
    for (int i = 0; i < made.count; i++)
        if (made.hashes[i] == hash && strcmp(made.names[i], name) == 0)
            return &made.tensors[i];
    return NULL;
}

struct rows published_tensor(const char *name, int layer)
{
    const struct rows *rows = find(name, "", layer);
    assert_non_null(rows);
    return *rows;
}

bool published_has(const char *name, int layer)
{
    return find(name, "", layer) != NULL;
}

/* y = x . w + b, or x . w^T + b */
static struct rows affine(struct rows x, const char *name, int layer, bool is_transposed)
{
    const struct rows *w = find(name, ".weight", layer), *b = find(name, ".bias", layer);
    assert_non_null(w);
    const int64_t out = is_transposed ? w->count : w->columns;
    const struct rows y = published_rows(x.count, out);
    assert_int_equal(x.columns, is_transposed ? w->columns : w->count);
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t o = 0; o < out; o++) {
            double sum = b ? b->data[o] : 0;
            for (int64_t c = 0; c < x.columns; c++)
                sum += x.data[i * x.columns + c]
                       * w->data[is_transposed ? o * w->columns + c : c * w->columns + o];
            y.data[i * out + o] = sum;
        }
    return y;
}

struct rows published_linear(struct rows x, const char *name, int layer)
{
    return affine(x, name, layer, true);
}

struct rows published_conv1d(struct rows x, const char *name, int layer)
{
    return affine(x, name, layer, false);
}

struct rows published_split(struct rows x, int64_t groups, int64_t first, int64_t count)
{
    const int64_t run = x.columns / groups;
    const struct rows y = published_rows(x.count, groups * count);
    double *to = y.data;
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t g = 0; g < groups; g++)
            for (int64_t c = 0; c < count; c++)
                *to++ = x.data[i * x.columns + g * run + first + c];
    return y;
}

static bool sees(const struct published_attention *attention, int64_t i, int64_t j)
{
    return !(attention->causal && j > i) && !(attention->window > 0 && j <= i - attention->window)
           && !(attention->chunk > 0 && i / attention->chunk != j / attention->chunk)
           && !(attention->reach > 0 && llabs(i - j) > attention->reach);
}

static double score(const struct published_attention *attention, const double *q, const double *k,
                    int64_t head_dim, int64_t head, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t c = 0; c < head_dim; c++)
        sum += q[c] * k[c];
    sum *= attention->scale;
    if (attention->softcap > 0)
        sum = tanh(sum / attention->softcap) * attention->softcap;
    return sum + (attention->bias ? attention->bias(head, i, j) : 0);
}

struct published_answer published_attend(const struct published_attention *attention, struct rows q,
                                         struct rows k, struct rows v)
{
    const int64_t heads = attention->heads;
    const int64_t kv_heads = attention->kv_heads ? attention->kv_heads : heads;
    const int64_t head_dim = q.columns / heads, v_head_dim = v.columns / kv_heads;
    struct published_answer answer = {
        published_rows(q.count, heads * v_head_dim),
        published_rows(heads * q.count, k.count).data,
        published_rows(heads, q.count).data,
        0,
        NULL,
    };
    assert_int_equal(k.columns, kv_heads * head_dim);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < q.count; i++) {
            const int64_t g = h / (heads / kv_heads);
            double *weights = answer.weights + (h * q.count + i) * k.count;
            double sum = attention->sinks ? exp(attention->sinks[h]) : 0;
            bool *seen = arena_calloc(memory(), (size_t)k.count, sizeof *seen);
            assert_non_null(seen);
            for (int64_t j = 0; j < k.count; j++)
                if (sees(attention, i, j) && !(attention->hides && attention->hides(h, i, j))) {
                    seen[j] = true;
                    const double of_pair =
                        score(attention, q.data + i * q.columns + h * head_dim,
                              k.data + j * k.columns + g * head_dim, head_dim, h, i, j);
                    answer.largest_score = fmax(answer.largest_score, fabs(of_pair));
                    sum += weights[j] = exp(of_pair);
                }
            answer.lse[h * q.count + i] = log(sum);
            for (int64_t j = 0; j < k.count; j++)
                weights[j] = seen[j] ? weights[j] / sum : 0;
            if (attention->weigh)
                attention->weigh(h, i, seen, k.count, weights);
            for (int64_t j = 0; j < k.count; j++)
                for (int64_t c = 0; c < v_head_dim; c++)
                    answer.context.data[(i * heads + h) * v_head_dim + c] +=
                        weights[j] * v.data[j * v.columns + g * v_head_dim + c];
        }
    for (int64_t i = 0; attention->gates.data && i < q.count * heads * v_head_dim; i++)
        answer.context.data[i] *= attention->gates.data[i];
    return answer;
}

/* --------------------------------------------------------------- comparing -- */

static float *floats(struct rows rows)
{
    float *numbers = arena_alloc(memory(), (size_t)(rows.count * rows.columns) * sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < rows.count * rows.columns; i++)
        numbers[i] = (float)rows.data[i];
    return numbers;
}

static void run(const struct attn_layer_problem *problem)
{
    struct attn_layer_plan plan;
    const char *where = "";
    const enum attn_status status = attn_layer_plan_init(&plan, problem, &where);
    if (status != ATTN_OK)
        fail_msg("%s: %s", where, attn_status_message(status));
    void *scratch = arena_alloc(memory(), plan.scratch_bytes);
    void *workspace = arena_alloc(memory(), plan.workspace_bytes);
    assert_true(scratch && workspace);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_run(&plan, stage, task, scratch, workspace);
}

static void expect_near(const float *got, const double *want, int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <= TOLERANCE * (1 + fabs(want[i]))))
            fail_msg("%s[%d] is %.9g, not %.9g", what, (int)i, (double)got[i], want[i]);
}

/* The layer's own bias of every pair; rows and keys begin at position 0. There is no data if the
 * layer has no bias. */
static struct attn_tensor bias_of(const struct model_layer *layer, int64_t q_len, int64_t kv_len)
{
    const struct model_relative_bias *bias = &layer->relative_bias;
    const int64_t heads = layer->layer.q_heads;
    struct fault fault;
    if (!bias->values)
        return (struct attn_tensor){ .data = NULL };
    if (!model_bias_check(bias, 0, q_len, 0, kv_len, &fault))
        fail_msg("%s", fault.message);
    float *mask = arena_alloc(memory(), (size_t)(heads * q_len * kv_len) * sizeof *mask);
    assert_non_null(mask);
    for (int64_t n = 0; n < heads * q_len * kv_len; n++)
        mask[n] = bias->values[n / kv_len / q_len * bias->count
                               + model_bias_column(bias, n / kv_len % q_len, n % kv_len)];
    return attn_tensor_dense(mask, ATTN_F32, 1, heads, q_len, kv_len);
}

/* Context and weights of a layer. */
static void compute(const struct model_layer *layer, struct rows query, struct rows key,
                    float *context, float *weights)
{
    float *key_floats = floats(key);
    const struct attn_layer_problem problem = {
        .layer = &layer->layer,
        .options = layer->options,
        .query = attn_tensor_dense(floats(query), ATTN_F32, 1, 1, query.count, query.columns),
        .key = attn_tensor_dense(key_floats, ATTN_F32, 1, 1, key.count, key.columns),
        .value = attn_tensor_dense(key_floats, ATTN_F32, 1, 1, key.count, key.columns),
        .mask = bias_of(layer, query.count, key.count),
        .alibi_slopes = layer->alibi_slopes,
        .sinks = layer->sinks,
        .context = context,
        .weights = weights,
    };
    run(&problem);
}

struct rows published_compute(int64_t index, struct rows query, struct rows key)
{
    assert_true(index < made.model->layer_count);
    const struct model_layer *layer = &made.model->layers[index];
    const struct rows context = published_rows(query.count, layer->d_out);
    float *numbers = floats(context),
          *weights = floats(published_rows(layer->layer.q_heads * query.count, key.count));
    compute(layer, query, key, numbers, weights);
    for (int64_t i = 0; i < context.count * context.columns; i++)
        context.data[i] = (double)numbers[i];
    return context;
}

void published_expect(int64_t index, const char *kind, struct rows query, struct rows key,
                      const struct published_answer *answer)
{
    assert_true(index < made.model->layer_count);
    const struct model_layer *layer = &made.model->layers[index];
    const struct rows map = published_rows(layer->layer.q_heads * query.count, key.count);
    float *context = floats(answer->context), *weights = floats(map);
    assert_string_equal(layer->kind, kind);
    assert_int_equal(answer->context.columns, layer->d_out);
    memset(context, 0, sizeof(float) * (size_t)(answer->context.count * answer->context.columns));
    compute(layer, query, key, context, weights);
    expect_near(weights, answer->weights, map.count * map.columns, "weights");
    expect_near(context, answer->context.data, answer->context.count * answer->context.columns,
                "context");
}
