/* SPDX-License-Identifier: Apache-2.0 */
/* session_file_read.h - a session's file (session_file.h) that anybody may have written, read and
 * checked before a session is made of it.
 *
 * In order: session_file_read() checks all but the numbers and the model; session_file_check_sum()
 * the numbers of one tensor, in any thread; session_file_make() the model, and makes the session.
 */
#ifndef ATTND_SESSION_FILE_READ_H
#define ATTND_SESSION_FILE_READ_H

#include "operations/session/session_file_format.h"
#include "operations/session/session_store.h"

/* What is gone takes no room, so a file could say any number of it; calls take time for each. */
#define SESSION_FILE_KV_LEN_MAX (INT64_C(1) << 31)

struct session_file_layer {
    int64_t number;
    bool is_state; /* it has states in place of keys and values */
    const struct safetensors_entry *entries[SESSION_FILE_SIDE_COUNT];
    const char *sums[SESSION_FILE_SIDE_COUNT]; /* NULL: none */
    struct session_shape shape;
    struct session_file_lengths lengths;
    int64_t gone;   /* positions behind the first keys that the file does not have */
    int64_t kv_len; /* all of them together */
};

struct session_file_read {
    struct safetensors file;
    struct arena arena;
    const char *digest; /* without ages; NULL: it has none, else nothing may be missing */
    const char *model_name;
    const char *model_identity; /* NULL: not said */
    const char *id, *owner;     /* that it had; NULL: none */
    enum attn_dtype dtype;
    int64_t kv_len_max;         /* INT64_MAX: none */
    int64_t window, first_keys; /* 0: none */
    int64_t ttl_ns, age_ns, idle_ns;
    bool is_evictable;
    struct session_file_layer *layers; /* [layer_count], ascending */
    int64_t layer_count;
    int64_t tensor_count; /* of all layers, each with its own */
};

/* Reads a file of size bytes, which must outlive it. memory may be NULL. On false there is nothing
 * to free; the fault's pointer is the key or the tensor. */
bool session_file_read(struct session_file_read *read, const void *bytes, size_t size,
                       struct memory_share *memory, struct fault *fault);
void session_file_read_free(struct session_file_read *read); /* a zeroed struct is fine */

/* Whether a session of the file may have this id: one of a client's, or MODEL:ID of a sequence;
 * else the fault is option, at /id. */
bool session_file_check_id(const struct session_file_read *read, const char *id,
                           struct fault *fault);

/* Whether the numbers of one tensor, of tensor_count, are those that its checksum was made of, and
 * such as the daemon writes. */
bool session_file_check_sum(const struct session_file_read *read, int64_t tensor,
                            struct fault *fault);

/* The same of all tensors. */
bool session_file_check_sums(const struct session_file_read *read, struct fault *fault);

/* A session of that model with the settings and the numbers of the file, whose pages count for the
 * account (NULL: for none), held once and in no store
 * yet; its use begins now. Where memory is short, sessions that were made evictable make room.
 * NULL, with the fault: conflict, where the file is another model's, memory, or a shape. */
struct session *session_file_make(const struct session_file_read *read, struct model *model,
                                  struct session_store *store, struct access_account *account,
                                  struct fault *fault);

#endif
