/* session_file_tensor.h - the tensors that a layer has in a session's file: their names, shapes,
 * and where their numbers lie in the pages of a session.
 *
 * A cache of int8 has groups of positions (session_rows.h), whose numbers and scales are tensors,
 * and behind them its rest, less than a group, in F32. */
#ifndef ATTND_SESSION_FILE_TENSOR_H
#define ATTND_SESSION_FILE_TENSOR_H

#include "session/session_rows.h"

/* In the order of the file. */
enum session_file_side {
    SESSION_FILE_KEY,         /* [kv_heads, rows, head_dim] */
    SESSION_FILE_VALUE,       /* [kv_heads, rows, v_head_dim] */
    SESSION_FILE_KEY_SCALE,   /* [kv_heads, groups, head_dim] */
    SESSION_FILE_VALUE_SCALE, /* [kv_heads, rows] */
    SESSION_FILE_GROUP_ROWS,  /* [groups] */
    SESSION_FILE_KEY_REST,    /* [kv_heads, rest, head_dim] */
    SESSION_FILE_VALUE_REST,  /* [kv_heads, rest, v_head_dim] */
    SESSION_FILE_SIDE_COUNT
};

/* How many a session of this dtype has, the first ones: 2, or all of them for int8. */
int session_file_side_count(enum attn_dtype dtype);
const char *session_file_side_name(int side); /* "key", behind "layers.N." */

/* That of the tensor in a file of this dtype, which session_file_dtype_of() knows. */
const char *session_file_side_dtype(int side, enum attn_dtype dtype);

/* Positions of a layer, but for those that are gone. */
struct session_file_lengths {
    int64_t rows;   /* in the session's dtype */
    int64_t groups; /* of int8: that rows are divided into */
    int64_t rest;   /* of int8: behind them */
};

struct session_file_lengths session_file_lengths_of(const struct session_rows *rows);

/* Sets the dimensions of a tensor, and returns how many it has. */
int session_file_dimensions(int side, const struct session_shape *shape,
                            const struct session_file_lengths *lengths, int64_t dimensions[3]);

/* Where a head has the numbers of part i of a cache that belong to a tensor, which are the next
 * ones of the tensor: head by head, and part by part. NULL: it has none of them, or they are gone.
 * Lengths of groups lie nowhere. */
char *session_file_run(const struct session_rows *rows, int64_t i, int side, int64_t head,
                       size_t *bytes);

#endif
