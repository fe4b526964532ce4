/* session_file_read.c - see session_file_read.h: names, settings and checksums. */
#include "session/session_file_read.h"

#include "model/model_config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = SESSION_FILE_SIDE_COUNT * MODEL_LAYERS_MAX };

/* How many of the first keys the rows see, and its name in files of before. */
#define FIRST_KEYS       "first_keys"
#define FIRST_KEYS_OLDER "sinks"

/* ------------------------------------------------------------------- the settings -- */

static const char *find_text(const struct session_file_read *read, const char *key)
{
    const struct safetensors_pair *pair = safetensors_metadata(&read->file, key);
    return pair ? pair->value : NULL;
}

static bool need_text(const struct session_file_read *read, const char *key, const char **value,
                      struct fault *fault)
{
    *value = find_text(read, key);
    return *value
           || fault_set(fault, FAULT_FIELD, "%s is missing in __metadata__ of the session's file",
                        key)
           || session_file_point_at(fault, key);
}

/* Whether a key is left out of a file that somebody else made. */
static bool lacks(const struct session_file_read *read, const char *key)
{
    return !read->is_sealed && !find_text(read, key);
}

/* A whole number as the writer writes it: without sign, blank or leading zero. */
static bool need_number(const struct session_file_read *read, const char *key, int64_t least,
                        int64_t most, int64_t *number, struct fault *fault)
{
    enum { DIGITS_MAX = 19 };
    const char *text;
    if (!need_text(read, key, &text, fault))
        return false;
    const size_t length = strlen(text);
    const bool is_number = length > 0 && length <= DIGITS_MAX
                           && strspn(text, "0123456789") == length && (text[0] != '0' || !text[1]);
    errno = 0;
    *number = is_number ? strtoll(text, NULL, 10) : -1;
    return (errno == 0 && *number >= least && *number <= most)
           || fault_set(fault, FAULT_OPTION,
                        "%s is '%.40s' in the session's file; expected a whole number from %" PRId64
                        " to %" PRId64,
                        key, text, least, most)
           || session_file_point_at(fault, key);
}

static bool check_version(const struct session_file_read *read, struct fault *fault)
{
    const char *version = find_text(read, SESSION_FILE_KEY_VERSION);
    if (!version)
        return fault_set(fault, FAULT_FIELD,
                         SESSION_FILE_KEY_VERSION
                         " is missing in __metadata__; expected the file of "
                         "a session, as GET /v1/sessions/{session} gives "
                         "it")
               || session_file_point_at(fault, SESSION_FILE_KEY_VERSION);
    return strcmp(version, SESSION_FILE_VERSION) == 0
           || fault_set(fault, FAULT_OPTION,
                        "the session's file has version '%.20s'; this build reads version "
                        "" SESSION_FILE_VERSION,
                        version)
           || session_file_point_at(fault, SESSION_FILE_KEY_VERSION);
}

/* Every key means something: one that this build does not know is a newer build's. */
static bool check_keys(const struct session_file_read *read, struct fault *fault)
{
    static const char *const KNOWN[] = { SESSION_FILE_KEY_VERSION,
                                         SESSION_FILE_KEY_DIGEST,
                                         "format",
                                         "session",
                                         "owner",
                                         "model",
                                         "model_sha256",
                                         "dtype",
                                         "kv_len_max",
                                         "window",
                                         FIRST_KEYS,
                                         FIRST_KEYS_OLDER,
                                         "ttl_ms",
                                         "evictable",
                                         "age_us",
                                         "idle_us" };
    for (int64_t i = 0; i < read->file.metadata_count; i++) {
        const struct safetensors_pair *pair = &read->file.metadata[i];
        size_t known = 0;
        if (strlen(pair->key) != pair->key_length || strlen(pair->value) != pair->value_length)
            return fault_set(fault, FAULT_FIELD, "'%.60s' in __metadata__ holds a NUL character",
                             pair->key)
                   || session_file_point_at(fault, pair->key);
        while (known < sizeof KNOWN / sizeof KNOWN[0] && strcmp(KNOWN[known], pair->key) != 0)
            known++;
        if (known == sizeof KNOWN / sizeof KNOWN[0]
            && strncmp(pair->key, SESSION_FILE_KEY_OF, strlen(SESSION_FILE_KEY_OF)) != 0
            && strncmp(pair->key, SESSION_FILE_KEY_GONE, strlen(SESSION_FILE_KEY_GONE)) != 0)
            return fault_set(fault, FAULT_FIELD,
                             "there is '%.60s' in __metadata__ of the session's file, which this "
                             "build does not know",
                             pair->key)
                   || session_file_point_at(fault, pair->key);
    }
    return true;
}

static bool read_dtype(struct session_file_read *read, struct fault *fault)
{
    const char *name;
    if (!need_text(read, "dtype", &name, fault))
        return false;
    const struct session_file_dtype *dtype = session_file_dtype_named(name);
    if (!dtype)
        return fault_set(fault, FAULT_OPTION,
                         "dtype is '%.40s' in the session's file; expected f32, f16, bf16 or int8",
                         name)
               || session_file_point_at(fault, "dtype");
    read->dtype = dtype->dtype;
    return true;
}

static bool read_evictable(struct session_file_read *read, struct fault *fault)
{
    const char *text;
    if (lacks(read, "evictable"))
        return true;
    if (!need_text(read, "evictable", &text, fault))
        return false;
    read->is_evictable = strcmp(text, "true") == 0;
    return read->is_evictable || strcmp(text, "false") == 0
           || fault_set(fault, FAULT_OPTION,
                        "evictable is '%.40s' in the session's file; expected true or false", text)
           || session_file_point_at(fault, "evictable");
}

static bool read_window(struct session_file_read *read, struct fault *fault)
{
    const bool is_older = !find_text(read, FIRST_KEYS) && find_text(read, FIRST_KEYS_OLDER);
    const char *name = is_older ? FIRST_KEYS_OLDER : FIRST_KEYS;
    if (!is_older && find_text(read, FIRST_KEYS_OLDER))
        return fault_set(fault, FAULT_DUPLICATE,
                         "the session's file has " FIRST_KEYS " and " FIRST_KEYS_OLDER
                         ", which mean the same")
               || session_file_point_at(fault, FIRST_KEYS_OLDER);
    if (!find_text(read, "window"))
        return !find_text(read, name)
               || fault_set(fault, FAULT_OPTION,
                            "the session's file has %s and no window, without which they mean "
                            "nothing",
                            name)
               || session_file_point_at(fault, name);
    return need_number(read, "window", 1, INT64_MAX, &read->window, fault)
           && (lacks(read, name)
               || need_number(read, name, 0, INT64_MAX, &read->first_keys, fault));
}

static bool read_times(struct session_file_read *read, struct fault *fault)
{
    enum { US = 1000, MS = 1000000 };
    read->ttl_ns = SESSION_TTL_DEFAULT_NS / MS;
    if (!(lacks(read, "ttl_ms")
          || need_number(read, "ttl_ms", 1, SESSION_TTL_MAX_NS / MS, &read->ttl_ns, fault))
        || !(lacks(read, "age_us")
             || need_number(read, "age_us", 0, INT64_MAX / US / 2, &read->age_ns, fault))
        || !(lacks(read, "idle_us")
             || need_number(read, "idle_us", 0, INT64_MAX / US / 2, &read->idle_ns, fault)))
        return false;
    read->ttl_ns *= MS;
    read->age_ns *= US;
    read->idle_ns *= US;
    return true;
}

static bool read_settings(struct session_file_read *read, struct fault *fault)
{
    read->kv_len_max = INT64_MAX;
    read->owner = find_text(read, "owner");
    read->is_sealed = find_text(read, SESSION_FILE_KEY_DIGEST) != NULL;
    return need_text(read, "model", &read->model_name, fault)
           && (lacks(read, "model_sha256")
               || need_text(read, "model_sha256", &read->model_identity, fault))
           && (lacks(read, "session") || need_text(read, "session", &read->id, fault))
           && read_dtype(read, fault) && read_evictable(read, fault)
           && (!find_text(read, "kv_len_max")
               || need_number(read, "kv_len_max", 1, INT64_MAX, &read->kv_len_max, fault))
           && read_window(read, fault) && read_times(read, fault);
}

/* -------------------------------------------------------------------- the tensors -- */

/* The layer and the side, of count, that a name such as "layers.12.value" means. */
static bool read_name(const struct safetensors_entry *entry, int count, int64_t *number, int *side)
{
    static const char PREFIX[] = "layers.";
    const char *p = entry->name + sizeof PREFIX - 1;
    *number = 0;
    if (strncmp(entry->name, PREFIX, sizeof PREFIX - 1) != 0
        || strlen(entry->name) != entry->name_length || *p == '.' || (p[0] == '0' && p[1] != '.'))
        return false;
    for (; *p >= '0' && *p <= '9' && *number < MODEL_LAYERS_MAX; p++)
        *number = *number * 10 + (*p - '0');
    *side = 0;
    while (*p == '.' && *side < count && strcmp(p + 1, session_file_side_name(*side)) != 0)
        (*side)++;
    return *p == '.' && *side < count && *number < MODEL_LAYERS_MAX;
}

static struct session_file_layer *layer_of(struct session_file_read *read, int64_t number)
{
    int64_t i = 0;
    while (i < read->layer_count && read->layers[i].number != number)
        i++;
    if (i == read->layer_count)
        read->layers[read->layer_count++].number = number;
    return &read->layers[i];
}

static bool take_tensor(struct session_file_read *read, const struct safetensors_entry *entry,
                        struct fault *fault)
{
    char key[sizeof SESSION_FILE_KEY_OF + SESSION_FILE_NAME_MAX];
    int64_t number;
    int side;
    if (!read_name(entry, session_file_side_count(read->dtype), &number, &side))
        return fault_set(fault, FAULT_FIELD,
                         "there is a tensor '%.60s' in the session's file; expected layers.0.key, "
                         "layers.0.value and so on",
                         entry->name)
               || session_file_point_at(fault, entry->name);
    const char *dtype = session_file_side_dtype(side, read->dtype);
    if (strcmp(entry->dtype, dtype) != 0)
        return fault_set(fault, FAULT_DTYPE,
                         "%s is %.8s in the session's file, whose dtype makes it %s", entry->name,
                         entry->dtype, dtype)
               || session_file_point_at(fault, entry->name);
    struct session_file_layer *layer = layer_of(read, number);
    layer->entries[side] = entry;
    snprintf(key, sizeof key, SESSION_FILE_KEY_OF "%s", entry->name);
    return lacks(read, key) || need_text(read, key, &layer->sums[side], fault);
}

static int compare_layers(const void *a, const void *b)
{
    const struct session_file_layer *one = a, *other = b;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* The layer whose keys that are gone a key of metadata counts; NULL: none. */
static struct session_file_layer *layer_of_gone(const struct session_file_read *read,
                                                const char *key)
{
    char own[sizeof SESSION_FILE_KEY_GONE + 24];
    for (int64_t i = 0; read->window > 0 && i < read->layer_count; i++) {
        snprintf(own, sizeof own, SESSION_FILE_KEY_GONE "%" PRId64, read->layers[i].number);
        if (strcmp(own, key) == 0)
            return &read->layers[i];
    }
    return NULL;
}

static bool read_gone(const struct session_file_read *read, struct fault *fault)
{
    for (int64_t i = 0; i < read->file.metadata_count; i++) {
        const char *key = read->file.metadata[i].key;
        if (strncmp(key, SESSION_FILE_KEY_GONE, strlen(SESSION_FILE_KEY_GONE)) != 0)
            continue;
        struct session_file_layer *layer = layer_of_gone(read, key);
        if (!layer)
            return fault_set(fault, FAULT_FIELD,
                             "there is '%.60s' in __metadata__ of the session's file, which has no "
                             "such layer, or no window",
                             key)
                   || session_file_point_at(fault, key);
        if (!need_number(read, key, 1, SESSION_FILE_KV_LEN_MAX, &layer->gone, fault))
            return false;
    }
    return true;
}

static bool read_tensors(struct session_file_read *read, struct fault *fault)
{
    const int64_t count = read->file.entry_count;
    if (count == 0 || count > TENSORS_MAX)
        return fault_set(fault, FAULT_FIELD,
                         "the session's file has %" PRId64 " tensors; expected those of 1 to %d "
                         "layers",
                         count, MODEL_LAYERS_MAX);
    read->layers = arena_calloc(&read->arena, (size_t)count, sizeof *read->layers);
    if (!read->layers)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < count; i++)
        if (!take_tensor(read, &read->file.entries[i], fault))
            return false;
    qsort(read->layers, (size_t)read->layer_count, sizeof *read->layers, compare_layers);
    if (!read_gone(read, fault))
        return false;
    for (int64_t i = 0; i < read->layer_count; i++)
        if (!session_file_read_shape(read, &read->layers[i], fault))
            return false;
    read->tensor_count = count;
    return true;
}

/* ---------------------------------------------------------------------- checksums -- */

static bool check_digest(struct session_file_read *read, struct fault *fault)
{
    const struct safetensors *file = &read->file;
    char digest[SHA256_HEX_BYTES];
    const char *written;
    struct safetensors_tensor *tensors =
        arena_calloc(&read->arena, (size_t)file->entry_count, sizeof *tensors);
    if (!tensors)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < file->entry_count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        uint64_t shape[3] = { 0 };
        safetensors_shape(entry, shape, entry->rank);
        tensors[i] = (struct safetensors_tensor){
            .name = entry->name,
            .rank = (int)entry->rank,
            .shape = { (int64_t)shape[0], (int64_t)shape[1], (int64_t)shape[2] },
            .dtype = entry->dtype,
        };
    }
    if (!need_text(read, SESSION_FILE_KEY_DIGEST, &written, fault)
        || !session_file_digest(file->metadata, file->metadata_count, tensors, file->entry_count,
                                &read->arena, digest, fault))
        return false;
    return strcmp(written, digest) == 0
           || fault_set(fault, FAULT_BINARY,
                        "the settings or shapes of the session's file are not those that its "
                        "" SESSION_FILE_KEY_DIGEST " was made of: the file is damaged")
           || session_file_point_at(fault, SESSION_FILE_KEY_DIGEST);
}

bool session_file_check_sum(const struct session_file_read *read, int64_t tensor,
                            struct fault *fault)
{
    const int count = session_file_side_count(read->dtype), side = (int)(tensor % count);
    const struct session_file_layer *layer = &read->layers[tensor / count];
    const struct safetensors_entry *entry = layer->entries[side];
    char sum[SHA256_HEX_BYTES];
    struct sha256 hash;
    if (!layer->sums[side])
        return session_file_check_numbers(read, layer, side, fault);
    sha256_begin(&hash);
    sha256_add(&hash, entry->data, entry->size);
    if (!sha256_end(&hash, sum))
        return fault_no_memory(fault);
    if (strcmp(sum, layer->sums[side]) == 0)
        return session_file_check_numbers(read, layer, side, fault);
    return fault_set(fault, FAULT_BINARY,
                     "the numbers of %s are not those that its checksum in the session's file was "
                     "made of: the file is damaged",
                     entry->name)
           || session_file_point_at(fault, entry->name);
}

bool session_file_check_sums(const struct session_file_read *read, struct fault *fault)
{
    for (int64_t i = 0; i < read->tensor_count; i++)
        if (!session_file_check_sum(read, i, fault))
            return false;
    return true;
}

/* -------------------------------------------------------------------------- whole -- */

bool session_file_read(struct session_file_read *read, const void *bytes, size_t size,
                       struct memory_share *memory, struct fault *fault)
{
    *read = (struct session_file_read){ .layer_count = 0 };
    if (!safetensors_read(&read->file, bytes, size, fault))
        return false;
    arena_init(&read->arena, SIZE_MAX);
    read->arena.memory = memory;
    if (check_version(read, fault) && check_keys(read, fault) && read_settings(read, fault)
        && read_tensors(read, fault) && (!read->is_sealed || check_digest(read, fault)))
        return true;
    session_file_read_free(read);
    return false;
}

void session_file_read_free(struct session_file_read *read)
{
    safetensors_free(&read->file);
    arena_free(&read->arena);
    *read = (struct session_file_read){ .layer_count = 0 };
}
