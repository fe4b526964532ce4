/* SPDX-License-Identifier: Apache-2.0 */
/* model_command.c - attnd model: new and show.
 *
 * Every matrix of a new model is Glorot-uniform; there are no biases. The layer's number and the
 * kind of the matrix select its stream of random numbers under the seed, so a layer has the same
 * parameters whatever else is in the file.
 *
 * show reads only the header of a file, whatever its size. Names come from the file and may hold
 * anything, so control characters are written as escapes. */
#include "cli/commands.h"

#include "base/arena.h"
#include "base/names.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "host/config_options.h"
#include "host/file_save.h"
#include "linear.h"
#include "models/model/model.h"
#include "models/model/model_config.h"
#include "models/model/model_describe.h"
#include "models/model/model_mapping.h"
#include "models/model/model_names.h"
#include "models/model/model_tensors.h"
#include "models/store/model_directory.h"
#include "models/store/model_open.h"
#include "json/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NEW_USAGE                                                                                  \
    "attnd model new [--attention KIND] --d-model N [--q-heads N] [--kv-heads N] [--hidden N] "    \
    "[--layers N] [--seed S] [--force] FILE.safetensors"

enum { EXIT_DONE = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2, WIDTH_MAX = 1 << 20, FLAG_BYTES = 80 };

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

static void print_new_help(void)
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
           NEW_USAGE, model_attention_names(), WIDTH_MAX, MODEL_LAYERS_MAX);
}

/* argv[2] is "new". Writes the file, whole or not at all; replaces an existing one only with
 * --force. */
static int make_new(int argc, char **argv)
{
    struct plan plan = { .attention = model_attention_find("scaled_dot_product") };
    struct fault fault;
    if (!read_arguments(&plan, argc, argv, &fault) || !settle(&plan, &fault)) {
        fprintf(stderr, "attnd: %s\nusage: %s\n", fault.message, NEW_USAGE);
        return EXIT_USAGE;
    }
    if (!write_model(&plan, &fault)) {
        fprintf(stderr, "attnd: %s: %s\n", plan.path, fault.message);
        return EXIT_REFUSED;
    }
    return EXIT_DONE;
}

/* ------------------------------------------------------------------- show -- */

enum { VALUE_BYTES_SHOWN = 500, TEXT_BYTES_MAX = 4096 };

#define USAGE "usage: attnd model show PATH\n       " NEW_USAGE "\n"

static void print_bytes(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c == 0x7F)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
}

static void print_metadata(const struct safetensors *file)
{
    printf("metadata: %" PRId64 "\n", file->metadata_count);
    for (int64_t i = 0; i < file->metadata_count; i++) {
        const struct safetensors_pair *pair = &file->metadata[i];
        const bool is_long = pair->value_length > VALUE_BYTES_SHOWN;
        printf("    ");
        print_bytes(pair->key, pair->key_length);
        printf(" = ");
        print_bytes(pair->value, is_long ? VALUE_BYTES_SHOWN : pair->value_length);
        printf(is_long ? "... (%zu bytes)\n" : "\n", pair->value_length);
    }
}

/* Shows eight dimensions at most: a rank has no limit. */
static void print_shape(const struct safetensors_entry *entry)
{
    uint64_t sizes[8];
    const int64_t shown = entry->rank < 8 ? entry->rank : 8;
    safetensors_shape(entry, sizes, shown);
    printf("[");
    for (int64_t i = 0; i < shown; i++)
        printf("%s%" PRIu64, i > 0 ? "," : "", sizes[i]);
    if (entry->rank > shown)
        printf(",... (%" PRId64 " dimensions)", entry->rank);
    printf("]");
}

static void print_tensors(const struct safetensors *file)
{
    printf("tensors: %" PRId64 "\n", file->entry_count);
    for (int64_t i = 0; i < file->entry_count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        printf("    ");
        print_bytes(entry->name, entry->name_length);
        printf("  %s ", entry->dtype);
        print_shape(entry);
        printf(" %zu bytes\n", entry->size);
    }
}

/* A width that each call chooses is printed as "any". */
static void print_width(const char *before, int64_t width)
{
    if (width >= 0)
        printf("%s%" PRId64, before, width);
    else
        printf("%sany", before);
}

/* Prints the options as GET /v1/models/{model} has them. */
static void print_options(const struct model_layer *layer)
{
    struct text text;
    text_init(&text, TEXT_BYTES_MAX);
    model_describe_options(layer, &text);
    if (!text.failed)
        printf("        %.*s\n", (int)text.used, text.data);
    text_free(&text);
}

static void print_model(const struct model *model)
{
    printf("model: %s, %" PRId64 " parameters, %" PRId64 " of attention in %" PRId64
           " bytes of %s%s\nlayers: %" PRId64 "\n",
           model->attention, model->total_parameter_count, model->parameter_count,
           model->parameter_bytes, model->dtype[0] ? model->dtype : "nothing",
           model->layers[0].options.causal ? ", causal" : "", model->layer_count);
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct model_layer *layer = &model->layers[i];
        printf("    %" PRId64 ":%s%s", i, layer->kind ? " " : "", layer->kind ? layer->kind : "");
        print_width(" query ", layer->d_query);
        print_width(", key ", layer->d_key);
        print_width(", value ", layer->d_value);
        print_width(" columns -> ", layer->d_out);
        printf("; q_heads %" PRId64 ", kv_heads %" PRId64 ", head_dim %" PRId64,
               layer->layer.q_heads, layer->layer.kv_heads, layer->layer.head_dim);
        print_width(", v_head_dim ", layer->layer.v_head_dim ? layer->layer.v_head_dim : -1);
        printf("\n");
        print_options(layer);
    }
}

/* Prints the model that the files make, or why they make none. */
static void show_model(const struct model_place *place)
{
    struct model *model;
    struct fault reason;
    const struct model_files files = { .path = place->path,
                                       .config_path = place->config_path,
                                       .is_folder = place->is_folder,
                                       .root = place->root };
    if (model_load_files(&model, "shown", place->path, &files, &reason)) {
        print_model(model);
        model_release(model);
    } else {
        printf("model: none that can be served: ");
        print_bytes(reason.message, strlen(reason.message));
        printf("\n");
    }
}

static bool show_file(const struct model_place *place, struct fault *fault)
{
    struct safetensors file;
    struct model_mapping *mapping = model_mapping_create(place->path, fault);
    if (!mapping)
        return false;
    const bool good = safetensors_read(&file, mapping->bytes, mapping->size, fault);
    if (good) {
        printf("file: ");
        print_bytes(place->path, strlen(place->path));
        printf("\n%zu bytes, %zu of them the header\n", mapping->size, file.header_size);
        print_metadata(&file);
        print_tensors(&file);
        safetensors_free(&file);
    }
    model_mapping_free(mapping);
    return good;
}

static bool show_shards(const struct model_place *place, struct fault *fault)
{
    struct model_tensors tensors;
    if (!model_tensors_open(&tensors, place->path, place->root, fault))
        return false;
    printf("index: ");
    print_bytes(place->path, strlen(place->path));
    printf("\nshards: %" PRId64 "\n", tensors.file_count);
    for (int64_t i = 0; i < tensors.file_count; i++) {
        printf("shard: ");
        print_bytes(tensors.names[i], strlen(tensors.names[i]));
        printf("\n");
        print_tensors(&tensors.files[i]);
    }
    model_tensors_free(&tensors);
    return true;
}

/* ------------------------------------------------------------------- GGUF -- */

static void print_value(const struct gguf_value *value)
{
    const char *text;
    size_t length;
    int64_t integer;
    double number;
    bool flag;
    if (gguf_text(value, &text, &length)) {
        const bool is_long = length > VALUE_BYTES_SHOWN;
        print_bytes(text, is_long ? VALUE_BYTES_SHOWN : length);
        if (is_long)
            printf("... (%zu bytes)", length);
    } else if (gguf_flag(value, &flag)) {
        printf("%s", flag ? "true" : "false");
    } else if (gguf_integer(value, &integer)) {
        printf("%" PRId64, integer);
    } else if (gguf_number(value, &number)) {
        printf("%.9g", number);
    } else {
        printf("%s, %" PRId64 " of them", gguf_type_name(value), value->count);
    }
}

static void print_pairs(const struct gguf *file)
{
    printf("metadata: %" PRId64 "\n", file->pair_count);
    for (int64_t i = 0; i < file->pair_count; i++) {
        printf("    ");
        print_bytes(file->pairs[i].key, file->pairs[i].key_length);
        printf(" = ");
        print_value(&file->pairs[i].value);
        printf("\n");
    }
}

static void print_entry(const struct model_entry *entry)
{
    printf("    ");
    print_bytes(entry->name, entry->name_length);
    printf("  %s [", entry->dtype);
    for (int64_t i = 0; i < entry->rank; i++)
        printf("%s%" PRIu64, i > 0 ? "," : "", entry->shape[i]);
    printf("] %zu bytes\n", entry->size);
}

/* A GGUF file, or all of its parts, under the names that it has for its tensors. */
static bool show_gguf(const struct model_place *place, struct fault *fault)
{
    struct model_tensors tensors;
    if (!model_tensors_open(&tensors, place->path, place->root, fault))
        return false;
    const struct gguf *first = model_tensors_gguf(&tensors);
    printf("file: ");
    print_bytes(place->path, strlen(place->path));
    printf("\nGGUF version %" PRIu32 ", %" PRId64 " %s, %zu bytes\n", first->version,
           tensors.file_count, tensors.file_count == 1 ? "file" : "parts",
           model_mapping_bytes(tensors.mapping));
    print_pairs(first);
    printf("tensors: %" PRId64 "\n", tensors.entry_count);
    for (int64_t i = 0; i < tensors.entry_count; i++)
        print_entry(&tensors.entries[i]);
    model_tensors_free(&tensors);
    return true;
}

static bool show(const struct model_place *place, struct fault *fault)
{
    const char *ending = strrchr(place->path, '.');
    const bool is_gguf = ending && strcasecmp(ending, ".gguf") == 0;
    if (!(model_tensors_is_index(place->path) ? show_shards(place, fault)
          : is_gguf                           ? show_gguf(place, fault)
                                              : show_file(place, fault)))
        return false;
    show_model(place);
    return true;
}

static bool show_path(const char *path, struct fault *fault)
{
    struct model_place place = { .path = path };
    struct arena arena;
    struct stat status;
    bool good = true;
    arena_init(&arena, SIZE_MAX);
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        place.is_folder = true;
        place.root = "/"; /* the user's own rights are the only limit */
        good = model_directory_look(&arena, &place, path) || fault_no_memory(fault);
    }
    if (good && place.path)
        good = show(&place, fault);
    else if (good)
        good = fault_set(fault, FAULT_NOT_FOUND, "'%s': %s", path, place.problem);
    arena_free(&arena);
    return good;
}

int model_command(int argc, char **argv)
{
    struct fault fault;
    if (config_help_asked(argv)) {
        if (argc > 2 && strcmp(argv[2], "new") == 0)
            print_new_help();
        else
            printf(USAGE);
        return EXIT_DONE;
    }
    if (argc == 4 && strcmp(argv[2], "show") == 0) {
        model_guard_install();
        if (show_path(argv[3], &fault))
            return fflush(stdout) == 0 ? EXIT_DONE : EXIT_REFUSED;
        if (strstr(fault.message, argv[3]))
            fprintf(stderr, "attnd: %s\n", fault.message);
        else
            fprintf(stderr, "attnd: '%s': %s\n", argv[3], fault.message);
        return EXIT_REFUSED;
    }
    if (argc > 2 && strcmp(argv[2], "new") == 0)
        return make_new(argc, argv);
    fprintf(stderr, USAGE);
    return EXIT_USAGE;
}
