/* SPDX-License-Identifier: Apache-2.0 */
/* session_file.h - a session as a safetensors file.
 *
 *     layers.N.key     [kv_heads, kv_len, head_dim]
 *     layers.N.value   [kv_heads, kv_len, v_head_dim]
 *
 * for each layer N of the session, in its dtype; head by head, as the caches of transformers and
 * the tensors of POST /v1/attention. A session of int8 has more of them (session_file_format.h).
 * The metadata has the settings of the session, what identifies its model, SHA-256 of each tensor,
 * and one of all the rest.
 *
 * The file is written from the pages where they lie: nothing is copied, and calls of the session
 * continue meanwhile. */
#ifndef ATTND_SESSION_FILE_H
#define ATTND_SESSION_FILE_H

#include "base/bytes.h"
#include "operations/session/session.h"
#include "operations/session/session_file_format.h"

struct session_file_tensor; /* private */

struct session_file {
    struct session *session; /* a snapshot */
    int64_t now_ns;          /* by which the head says ages; the caller may change it */
    struct arena arena;
    struct session_file_tensor *own;    /* [tensor_count] */
    struct safetensors_tensor *tensors; /* [tensor_count], without their values */
    int64_t tensor_count;
    struct byte_slice *parts; /* [part_count]; the first is the head, and the caller's */
    int part_count;
};

/* Takes a snapshot of a session; for a call whose turn it is, which may then give it up. memory may
 * be NULL. On false there is nothing to free. */
bool session_file_begin(struct session_file *file, const struct session *session,
                        struct memory_share *memory, struct fault *fault);

/* Makes the checksum of one tensor, in any thread. */
void session_file_sum(struct session_file *file, int64_t tensor);

/* Then: writes the head to an empty text. The file is the text, and the parts behind the first. */
bool session_file_write_head(struct session_file *file, struct text *text, struct fault *fault);

void session_file_free(struct session_file *file); /* a zeroed struct is fine */

#endif
