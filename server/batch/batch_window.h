/* SPDX-License-Identifier: Apache-2.0 */
/* batch_window.h - the requests of a batch that are computed at a time, in the order of their
 * lines.
 *
 * A place is taken by a line or by the end of a chunk. The first place is the one that is written
 * next. */
#ifndef ATTND_BATCH_WINDOW_H
#define ATTND_BATCH_WINDOW_H

#include "batch/batch_line.h"
#include "batch/batch_source.h"
#include "formats/safetensors.h"
#include "http/local.h"
#include "json/text.h"

enum { BATCH_WINDOW_MAX = 512 };

enum batch_state { BATCH_COMPUTED, BATCH_REFUSED, BATCH_ANSWERED, BATCH_CHUNK_END };

struct batch_place {
    enum batch_state state;
    int64_t number, offset; /* of the line; of an end the number is the next chunk's */
    size_t size;
    size_t held_bytes; /* of its body while it is computed, then of its answer */
    int refusals;      /* for load, so far */
    bool has_id;
    size_t id_size;
    char id[BATCH_ID_MAX + 1];
    struct text answer; /* the line of its answer, once it is there */
    struct text file;   /* where the answer is a file of safetensors: the file, and its reader */
    struct safetensors tensors;
};

struct batch_window {
    struct service *service;
    struct local *local;
    const char *accept;              /* of all requests */
    struct batch_place *places;      /* [BATCH_WINDOW_MAX], malloc'd */
    int64_t first, next;             /* numbers of places, of which the rest is the index */
    int64_t computed_count;          /* places that are computed now */
    const struct batch_place *alone; /* is computed, and nothing was beside it; NULL: none */
    int64_t computed_max;            /* falls where the daemon refuses, and rises again */
    int64_t refused_count;           /* places that are to be handed in again */
    size_t held_bytes;               /* of answers and of bodies that are computed */
    size_t held_bytes_max;
    void *ids; /* tsearch(3): of the chunk that is read */
};

/* asks_for_files: answers are files of safetensors, where they can be. */
bool batch_window_init(struct batch_window *window, struct service *service, bool asks_for_files,
                       struct fault *fault);

/* Waits for what is computed, and frees all. */
void batch_window_free(struct batch_window *window);

/* Whether one more line may be handed in: there is a place, and room. */
bool batch_window_has_room(const struct batch_window *window);

/* Hands in the next line, or notes the end of its chunk, and which is read behind it. False, with
 * the fault: no memory. */
bool batch_window_add(struct batch_window *window, const struct batch_text *text,
                      struct fault *fault);
void batch_window_end_chunk(struct batch_window *window, int64_t next_chunk);

/* Hands in again what was refused for load, as far as there is room. */
bool batch_window_retry(struct batch_window *window, const struct batch_source *source,
                        struct fault *fault);

/* Takes answers that have come, and waits for one until deadline_ns where nothing else is to be
 * done. */
bool batch_window_take(struct batch_window *window, int64_t deadline_ns, struct fault *fault);

/* The first place, where it is to be written; NULL: there is none yet. */
struct batch_place *batch_window_first(const struct batch_window *window);
void batch_window_pass(struct batch_window *window);

#endif
