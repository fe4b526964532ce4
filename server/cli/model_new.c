/* model_new.c - see model_new.h.
 *
 * Every matrix is Glorot-uniform; there are no biases. The layer's number and the kind of the
 * matrix select its stream of random numbers under the seed, so a layer has the same parameters
 * whatever else is in the file. */
#include "cli/model_new.h"

#include "base/arena.h"
#include "base/names.h"
#include "formats/safetensors.h"
#include "host/file_save.h"
#include "linear.h"
#include "model/model_config.h"
#include "model/model_names.h"
#include "text/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXIT_WRITTEN = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2, WIDTH_MAX = 1 << 20, FLAG_BYTES = 80 };

static const int64_t BYTES_MAX = INT64_C(1) << 32;

struct plan {
    const struct model_attention *attention;
    int64_t d_model, q_heads, kv_heads, hidden, layers; /* 0: not given */
    uint64_t seed;
    bool force;
    const char *path;
};

/* ------------------------------------------------------------------ arguments -- */

static bool read_number(const char *flag, const char *text, int64_t most, int64_t *number,
                        struct fault *fault)
{
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || *number < 1 || *number > most)
        return fault_set(fault, FAULT_OPTION,
                         "%s is '%.60s'; expected an integer from 1 to %" PRId64, flag, text, most);
    return true;
}

static bool read_seed(const char *text, uint64_t *seed, struct fault *fault)
{
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        return fault_set(fault, FAULT_OPTION,
                         "--seed is '%.60s'; expected an integer from 0 to %" PRIu64, text,
                         UINT64_MAX);
    return true;
}

static bool read_attention(const char *text, const struct model_attention **attention,
                           struct fault *fault)
{
    *attention = model_attention_find(text);
    return *attention
           || fault_set(fault, FAULT_OPTION, "--attention is '%.60s'; expected %s", text,
                        model_attention_names());
}

static bool read_flag(struct plan *plan, const char *flag, const char *value, struct fault *fault)
{
    const struct {
        const char *name;
        int64_t *number;
        int64_t most;
    } numbers[] = {
        { "--d-model", &plan->d_model, WIDTH_MAX },      { "--q-heads", &plan->q_heads, WIDTH_MAX },
        { "--kv-heads", &plan->kv_heads, WIDTH_MAX },    { "--hidden", &plan->hidden, WIDTH_MAX },
        { "--layers", &plan->layers, MODEL_LAYERS_MAX },
    };
    static const char *const KNOWN[] = { "--attention", "--d-model", "--q-heads", "--kv-heads",
                                         "--hidden",    "--layers",  "--seed",    "--force" };
    enum { KNOWN_COUNT = sizeof KNOWN / sizeof KNOWN[0] };
    int known = 0;
    while (known < KNOWN_COUNT && strcmp(flag, KNOWN[known]) != 0)
        known++;
    if (known == KNOWN_COUNT) {
        const char *nearest = nearest_name(flag, KNOWN, KNOWN_COUNT);
        return fault_set(fault, FAULT_OPTION, "there is no flag '%.60s'%s%s%s", flag,
                         nearest ? "; did you mean '" : "", nearest ? nearest : "",
                         nearest ? "'?" : "");
    }
    if (strcmp(flag, "--force") == 0)
        return fault_set(fault, FAULT_OPTION, "--force takes no value");
    if (!value || !value[0])
        return fault_set(fault, FAULT_OPTION, "%s has no value", flag);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(flag, numbers[i].name) == 0)
            return read_number(flag, value, numbers[i].most, numbers[i].number, fault);
    return strcmp(flag, "--seed") == 0 ? read_seed(value, &plan->seed, fault)
                                       : read_attention(value, &plan->attention, fault);
}

static bool read_arguments(struct plan *plan, int argc, char **argv, struct fault *fault)
{
    char flag[FLAG_BYTES];
    for (int i = 3; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (strcmp(argv[i], "--force") == 0) {
            plan->force = true;
        } else if (argv[i][0] == '-') {
            snprintf(flag, sizeof flag, "%.*s",
                     equals ? (int)(equals - argv[i]) : (int)strlen(argv[i]), argv[i]);
            const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
            if (!read_flag(plan, flag, value, fault))
                return false;
        } else if (plan->path) {
            return fault_set(fault, FAULT_OPTION, "two files are named, '%.60s' and '%.60s'",
                             plan->path, argv[i]);
        } else {
            plan->path = argv[i];
        }
    }
    if (!plan->d_model)
        return fault_set(fault, FAULT_OPTION, "--d-model is missing");
    return plan->path || fault_set(fault, FAULT_OPTION, "the file is missing");
}

/* Fills in what was not given; refuses what has no meaning for this attention. */
static bool settle(struct plan *plan, struct fault *fault)
{
    const char *name = plan->attention->name;
    const bool has_hidden = plan->attention->required & ~model_parameter_bit(MODEL_SCORE);
    if (!plan->attention->is_dot && (plan->q_heads || plan->kv_heads))
        return fault_set(fault, FAULT_OPTION, "%s is given; %s attention has one head",
                         plan->q_heads ? "--q-heads" : "--kv-heads", name);
    if (!has_hidden && plan->hidden)
        return fault_set(fault, FAULT_OPTION,
                         "--hidden is given; %s attention has no hidden columns", name);
    plan->layers = plan->layers ? plan->layers : 1;
    plan->q_heads = plan->q_heads ? plan->q_heads : 1;
    plan->kv_heads = plan->kv_heads ? plan->kv_heads : plan->q_heads;
    plan->hidden = plan->hidden ? plan->hidden : plan->d_model;
    if (plan->d_model % plan->q_heads != 0)
        return fault_set(fault, FAULT_OPTION,
                         "--d-model is %" PRId64 "; expected a multiple of --q-heads, which is "
                         "%" PRId64,
                         plan->d_model, plan->q_heads);
    if (plan->q_heads % plan->kv_heads != 0)
        return fault_set(fault, FAULT_OPTION,
                         "--q-heads is %" PRId64 "; expected a multiple of --kv-heads, which is "
                         "%" PRId64,
                         plan->q_heads, plan->kv_heads);
    return true;
}

/* -------------------------------------------------------------------- the file -- */

/* The parameters of a new layer, as bits: a dot product gets all that it may have, another score
 * only those that it must have. */
static unsigned parameters_of(const struct plan *plan)
{
    return plan->attention->is_dot ? plan->attention->allowed : plan->attention->required;
}

/* The rows and columns of a parameter; 0 rows: it is a vector. */
static void shape_of(const struct plan *plan, enum model_projection which, int64_t shape[2])
{
    const int64_t d = plan->d_model, kv_columns = d / plan->q_heads * plan->kv_heads;
    const bool is_dot = plan->attention->is_dot;
    const bool is_matrix = which != MODEL_SCORE || parameters_of(plan) == 1u << MODEL_SCORE;
    const bool is_kv = which == MODEL_K || which == MODEL_V;
    shape[0] = !is_matrix                                 ? 0
               : which == MODEL_O || which == MODEL_SCORE ? d
               : !is_dot                                  ? plan->hidden
               : is_kv                                    ? kv_columns
                                                          : d;
    shape[1] = !is_matrix ? plan->hidden : which == MODEL_CONCAT ? 2 * d : d;
}

static bool make_tensor(struct safetensors_tensor *tensor, struct arena *arena,
                        const struct plan *plan, int64_t layer, enum model_projection which)
{
    int64_t shape[2];
    shape_of(plan, which, shape);
    const int64_t rows = shape[0] ? shape[0] : 1, columns = shape[1];
    char *name = arena_alloc(arena, MODEL_NAMES_BYTES);
    float *values = arena_alloc(arena, (size_t)(rows * columns) * sizeof *values);
    if (!name || !values)
        return false;
    model_names_write(name, layer, plan->layers, which, false);
    attn_init_glorot(values, rows * columns, columns, rows, plan->seed,
                     (uint64_t)(layer * MODEL_PARAMETER_COUNT + which));
    *tensor = (struct safetensors_tensor){
        .name = name,
        .rank = shape[0] ? 2 : 1,
        .shape = { shape[0] ? rows : columns, columns },
        .values = values,
    };
    return true;
}

/* *tensors is in the arena. */
static bool make_tensors(struct safetensors_tensor **tensors, int64_t *count, struct arena *arena,
                         const struct plan *plan, struct fault *fault)
{
    *count = 0;
    *tensors =
        arena_calloc(arena, (size_t)(plan->layers * MODEL_PARAMETER_COUNT), sizeof **tensors);
    if (!*tensors)
        return fault_no_memory(fault);
    for (int64_t layer = 0; layer < plan->layers; layer++)
        for (int i = 0; i < MODEL_PARAMETER_COUNT; i++) {
            const enum model_projection which = (enum model_projection)i;
            if ((parameters_of(plan) & model_parameter_bit(which))
                && !make_tensor(&(*tensors)[(*count)++], arena, plan, layer, which))
                return fault_no_memory(fault);
        }
    return true;
}

static int64_t bytes_of(const struct plan *plan)
{
    int64_t numbers = 0, shape[2];
    for (int i = 0; i < MODEL_PARAMETER_COUNT; i++) {
        if (!(parameters_of(plan) & 1u << i))
            continue;
        shape_of(plan, (enum model_projection)i, shape);
        numbers += (shape[0] ? shape[0] : 1) * shape[1];
    }
    return numbers * plan->layers * (int64_t)sizeof(float);
}

static bool make_config(const struct plan *plan, struct text *text, struct fault *fault)
{
    text_raw(text, "{\"attention\":");
    text_string(text, plan->attention->name);
    text_raw(text, ",\"layers\":");
    text_integer(text, plan->layers);
    if (plan->attention->is_dot) {
        text_raw(text, ",\"q_heads\":");
        text_integer(text, plan->q_heads);
        text_raw(text, ",\"kv_heads\":");
        text_integer(text, plan->kv_heads);
    }
    text_bytes(text, "}", 2); /* with its NUL byte */
    return text_finish(text, fault);
}

static bool save(const char *path, const void *bytes, size_t size, struct fault *fault)
{
    const char *slash = strrchr(path, '/');
    char *directory = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
    const struct file_folder folder = { directory, "directory", 0666 };
    const struct byte_slice whole = { bytes, size };
    struct file_save saved;
    if (!directory)
        return fault_no_memory(fault);
    errno = 0;
    bool good = file_save_begin(&saved, &folder, &whole, 1, fault);
    int error = errno;
    if (good && !file_save_commit(&saved, &folder, path, fault)) {
        error = errno;
        file_save_free(&saved);
        good = false;
    }
    free(directory);
    return good || fault_set(fault, FAULT_STORAGE, "cannot be written: %s", strerror(error));
}

static bool write_model(const struct plan *plan, struct fault *fault)
{
    struct safetensors_tensor *tensors;
    struct arena arena;
    struct text config;
    void *bytes = NULL;
    size_t size;
    int64_t count;
    struct stat status;
    assert(plan->path);
    if (!plan->force && lstat(plan->path, &status) == 0)
        return fault_set(fault, FAULT_OPTION, "is there already; --force writes over it");
    if (bytes_of(plan) > BYTES_MAX)
        return fault_set(fault, FAULT_TOO_LARGE,
                         "the parameters take %" PRId64 " bytes; expected at most %" PRId64,
                         bytes_of(plan), BYTES_MAX);
    arena_init(&arena, SIZE_MAX);
    text_init(&config, SIZE_MAX);
    const bool good =
        make_config(plan, &config, fault) && make_tensors(&tensors, &count, &arena, plan, fault)
        && safetensors_write(&bytes, &size, tensors, count, "attnd", config.data, fault)
        && save(plan->path, bytes, size, fault);
    free(bytes);
    text_free(&config);
    arena_free(&arena);
    return good;
}

void model_new_help(void)
{
    printf("usage: %s\n\n"
           "Writes a model to begin with: Glorot-uniform parameters, without biases.\n\n"
           "  --attention KIND  %s\n"
           "                    (scaled_dot_product)\n"
           "  --d-model N       columns of a row, 1 to %d; has to be given\n"
           "  --q-heads N       query heads of a dot product (1); --d-model is a multiple\n"
           "  --kv-heads N      key and value heads of a dot product (--q-heads)\n"
           "  --hidden N        hidden columns of additive and concat (--d-model)\n"
           "  --layers N        1 to %d (1)\n"
           "  --seed S          the same file for the same seed, on every machine (0)\n"
           "  --force           write over a file that is there\n",
           MODEL_NEW_USAGE, model_attention_names(), WIDTH_MAX, MODEL_LAYERS_MAX);
}

int model_new(int argc, char **argv)
{
    struct plan plan = { .attention = model_attention_find("scaled_dot_product") };
    struct fault fault;
    if (!read_arguments(&plan, argc, argv, &fault) || !settle(&plan, &fault)) {
        fprintf(stderr, "attnd: %s\nusage: %s\n", fault.message, MODEL_NEW_USAGE);
        return EXIT_USAGE;
    }
    if (!write_model(&plan, &fault)) {
        fprintf(stderr, "attnd: %s: %s\n", plan.path, fault.message);
        return EXIT_REFUSED;
    }
    return EXIT_WRITTEN;
}
