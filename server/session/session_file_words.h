/* session_file_words.h - what the writer and the reader of a session's file share: its keys of
 * metadata, the names of its dtypes, and the digest of all that is not numbers. */
#ifndef ATTND_SESSION_FILE_WORDS_H
#define ATTND_SESSION_FILE_WORDS_H

#include "base/arena.h"
#include "base/sha256.h"
#include "formats/safetensors.h"

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

/* Ends a fault of a key of metadata or of a tensor. Returns false. */
bool session_file_point_at(struct fault *fault, const char *name);

/* The digest of metadata and of the tensors' names, dtypes and shapes: SHA-256 of one line for each
 * pair, "key=value", and for each tensor, "name dtype d0,d1,d2", in the order of their bytes, each
 * with a newline. The pairs "sha256" and "format" are left out. */
bool session_file_digest(const struct safetensors_pair *pairs, int64_t pair_count,
                         const struct safetensors_tensor *tensors, int64_t tensor_count,
                         struct arena *arena, char hex[SHA256_HEX_BYTES], struct fault *fault);

#endif
