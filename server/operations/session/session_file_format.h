/* SPDX-License-Identifier: Apache-2.0 */
/* session_file_format.h - what the writer and the reader of a session's file share: keys of
 * metadata, names of dtypes, the tensors of a layer and where their numbers lie in the pages of a
 * session, and the digest of all that is not numbers.
 *
 * A layer that keeps states in place of keys has them and the lengths that they belong to. A cache
 * of int8 has groups of positions (session_rows.h), whose numbers and scales are tensors,
 * and behind them its rest, less than a group, in F32. */
#ifndef ATTND_SESSION_FILE_FORMAT_H
#define ATTND_SESSION_FILE_FORMAT_H

#include "base/arena.h"
#include "base/sha256.h"
#include "formats/safetensors.h"
#include "operations/session/session_rows.h"

#define SESSION_FILE_VERSION "1"

enum { SESSION_FILE_NAME_MAX = 40 }; /* of a tensor, with its NUL */

/* Keys of metadata; API_SESSIONS.md says what each is. */
#define SESSION_FILE_KEY_VERSION "attnd_session"
#define SESSION_FILE_KEY_DIGEST  "sha256"
#define SESSION_FILE_KEY_OF      "sha256." /* and the name of a tensor */
#define SESSION_FILE_KEY_GONE    "gone."   /* and the number of a layer */

/* A dtype of sessions, in settings and of key and value. */
struct session_file_dtype {
    const char *name, *tensor;
    enum attn_dtype dtype;
};

/* NULL: there is none. */
const struct session_file_dtype *session_file_dtype_of(enum attn_dtype dtype);
const struct session_file_dtype *session_file_dtype_named(const char *name);

/* Sets a fault of a key of metadata or of a tensor, which the pointer names. Returns false. */
bool session_file_refuse(struct fault *fault, const char *name, enum fault_code code,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* In the order of the file. */
enum session_file_side {
    SESSION_FILE_KEY,         /* [kv_heads, rows, head_dim] */
    SESSION_FILE_VALUE,       /* [kv_heads, rows, v_head_dim] */
    SESSION_FILE_KEY_SCALE,   /* [kv_heads, groups, head_dim] */
    SESSION_FILE_VALUE_SCALE, /* [kv_heads, rows] */
    SESSION_FILE_GROUP_ROWS,  /* [groups] */
    SESSION_FILE_KEY_REST,    /* [kv_heads, rest, head_dim] */
    SESSION_FILE_VALUE_REST,  /* [kv_heads, rest, v_head_dim] */
    SESSION_FILE_STATE,    /* [states, numbers]; this and the next of a layer with states alone */
    SESSION_FILE_STATE_AT, /* [states]: the positions before each, ascending */
    SESSION_FILE_SIDE_COUNT
};

/* Whether a layer of a session of this dtype has the tensor. */
bool session_file_has_side(enum attn_dtype dtype, bool is_state, int side);
const char *session_file_side_name(int side); /* "key", behind "layers.N." */

/* That of the tensor in a file of this dtype, which session_file_dtype_of() knows. */
const char *session_file_side_dtype(int side, enum attn_dtype dtype);

/* Positions of a layer without those that are gone. */
struct session_file_lengths {
    int64_t rows;   /* in the session's dtype; or states */
    int64_t groups; /* of int8: that rows are divided into */
    int64_t rest;   /* of int8: behind them */
};

struct session_file_lengths session_file_lengths_of(const struct session_rows *rows);

/* Sets the dimensions of a tensor, and returns how many it has. */
int session_file_dimensions(int side, const struct session_shape *shape,
                            const struct session_file_lengths *lengths, int64_t dimensions[3]);

/* Where a head has the numbers of part i of a cache that belong to a tensor, which are the next
 * ones of the tensor: head by head, and part by part. NULL: it has none of them, or they are gone.
 * Lengths of groups and of states lie nowhere. */
char *session_file_run(const struct session_rows *rows, int64_t i, int side, int64_t head,
                       size_t *bytes);

struct session_file_digests {
    char whole[SHA256_HEX_BYTES];   /* the pair "sha256" of the file */
    char ageless[SHA256_HEX_BYTES]; /* without the ages: files of a session that has not changed
                                       between them have one */
};

/* The digest of metadata and of the tensors' names, dtypes and shapes: SHA-256 of one line for each
 * pair, "key=value", and for each tensor, "name dtype d0,d1,d2", in the order of their bytes, each
 * with a newline. The pairs "sha256" and "format" are left out. */
bool session_file_digest(const struct safetensors_pair *pairs, int64_t pair_count,
                         const struct safetensors_tensor *tensors, int64_t tensor_count,
                         struct arena *arena, struct session_file_digests *digest,
                         struct fault *fault);

#endif
