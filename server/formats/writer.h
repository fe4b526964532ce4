/* SPDX-License-Identifier: Apache-2.0 */
/* writer.h - answers as bytes: an operation says its results, a format's writer writes them.
 *
 * What is said goes out at once where the format can: JSON goes to the text of the answer, whose
 * long arrays are left to tasks (text.h); a file notes its tensors, which are sent from the memory
 * of the results. Calls between begin and finish cannot fail: a writer remembers what went wrong,
 * and finish() says it. Values and arrays must stay until the answer has been sent. */
#ifndef ATTND_WRITER_H
#define ATTND_WRITER_H

#include "base/arena.h"
#include "base/array.h"
#include "base/bytes.h"
#include "json/text.h"

struct format_body;

struct writer {
    const struct writer_kind *kind;
    struct arena *arena;
    struct text *text; /* of the answer; of a file its head */
    struct fault *fault;

    /* Set by finish: what follows the text; parts[0] is the text itself. None: it is all. */
    const struct byte_slice *parts;
    int part_count;
    const char *content_type; /* NULL: the kind's */
    bool is_header;           /* the text is a header of the parts, whose length the client gets */
};

struct writer_kind {
    const char *content_type;
    bool keeps_dtype; /* numbers go out in the dtype of the request; else they are text, of F32 */

    /* A writer, in the arena of the request's body; NULL: no memory, and the fault is set. */
    struct writer *(*begin)(const struct format_body *body, struct text *text, struct fault *fault);

    /* name is NULL in a list, and of the whole answer. Only an object in a list may have one: in
     * the names of a file's tensors it stands for the index. */
    void (*object)(struct writer *writer, const char *name);
    void (*list)(struct writer *writer, const char *name);

    /* An object in text, and nothing in a file; the names in it are those of a checkpoint. */
    void (*group)(struct writer *writer, const char *name);
    void (*end)(struct writer *writer); /* of the last object, list or group that was begun */
    void (*string)(struct writer *writer, const char *name, const char *value); /* NULL: null */
    void (*flag)(struct writer *writer, const char *name, bool value);
    void (*integer)(struct writer *writer, const char *name, int64_t value);
    void (*array)(struct writer *writer, const char *name, const struct array *array);
    void (*indices)(struct writer *writer, const char *name, const int64_t *values, int rank,
                    const int64_t *shape);
    bool (*finish)(struct writer *writer);
};

extern const struct writer_kind writer_json, writer_safetensors, writer_npy;

/* Verbs of a kind that has no place for what they say. */
void writer_skip_begin(struct writer *writer, const char *name);
void writer_skip_end(struct writer *writer);
void writer_skip_string(struct writer *writer, const char *name, const char *value);
void writer_skip_flag(struct writer *writer, const char *name, bool value);
void writer_skip_integer(struct writer *writer, const char *name, int64_t value);
void writer_skip_indices(struct writer *writer, const char *name, const int64_t *values, int rank,
                         const int64_t *shape);

#endif
