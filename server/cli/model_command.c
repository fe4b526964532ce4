/* model_command.c - see model_command.h.
 *
 * Only the header of a file is read, whatever its size. Names come from the file and may hold
 * anything, so control characters are written as escapes. */
#include "cli/model_command.h"

#include "cli/model_new.h"
#include "config/config_options.h"
#include "model/model.h"
#include "model/model_describe.h"
#include "model/model_mapping.h"
#include "model/model_tensors.h"
#include "store/model_directory.h"
#include "store/model_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    EXIT_SHOWN = 0,
    EXIT_REFUSED = 1,
    EXIT_USAGE = 2,
    VALUE_BYTES_SHOWN = 500,
    TEXT_BYTES_MAX = 4096
};

#define USAGE "usage: attnd model show PATH\n       " MODEL_NEW_USAGE "\n"

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

static bool show(const struct model_place *place, struct fault *fault)
{
    if (!(model_tensors_is_index(place->path) ? show_shards(place, fault)
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
            model_new_help();
        else
            printf(USAGE);
        return EXIT_SHOWN;
    }
    if (argc == 4 && strcmp(argv[2], "show") == 0) {
        model_guard_install();
        if (show_path(argv[3], &fault))
            return fflush(stdout) == 0 ? EXIT_SHOWN : EXIT_REFUSED;
        if (strstr(fault.message, argv[3]))
            fprintf(stderr, "attnd: %s\n", fault.message);
        else
            fprintf(stderr, "attnd: '%s': %s\n", argv[3], fault.message);
        return EXIT_REFUSED;
    }
    if (argc > 2 && strcmp(argv[2], "new") == 0)
        return model_new(argc, argv);
    fprintf(stderr, USAGE);
    return EXIT_USAGE;
}
