/* SPDX-License-Identifier: Apache-2.0 */
/* batch_source.h - the file of requests, line by line, cut into chunks.
 *
 * Lines end with a line feed; the last one may have none. Chunk i of n lines has the lines from
 * i * n on, whatever else is in the file, so it depends on its own lines alone. Part p of q has the
 * chunks i with i % q == p. */
#ifndef ATTND_BATCH_SOURCE_H
#define ATTND_BATCH_SOURCE_H

#include "base/fault.h"
#include "base/sha256.h"

#include <stdint.h>

struct batch_source {
    const char *path;
    int file;
    int64_t bytes, line_count, chunk_lines, chunk_count;
    char sha256[SHA256_HEX_BYTES]; /* of the file */
    int64_t *chunk_offsets;        /* [chunk_count + 1]; malloc'd */
    size_t line_bytes_max;         /* longer lines are not kept */

    /* The chunk that is being read. */
    char *buffer; /* malloc'd */
    size_t capacity, begin, end;
    int64_t read_to;         /* the offset of what comes behind the buffer */
    int64_t chunk_end, line; /* the offset of its end; of the next line, from 1 */
};

struct batch_text {
    int64_t number; /* from 1 */
    int64_t offset;
    char *bytes; /* the source's, until the next line is read; may be written to */
    size_t size; /* without its end */
    bool is_too_long;
};

/* Reads the file once, to know its lines. source->path, chunk_lines and line_bytes_max are set. On
 * false nothing is left open. */
bool batch_source_open(struct batch_source *source, struct fault *fault);
void batch_source_close(struct batch_source *source);

/* The number of lines of a chunk. */
int64_t batch_source_lines(const struct batch_source *source, int64_t chunk);

/* From now on the lines of this chunk are read. */
void batch_source_seek(struct batch_source *source, int64_t chunk);

enum batch_read { BATCH_READ, BATCH_CHUNK_ENDS, BATCH_FAILED };
enum batch_read batch_source_next(struct batch_source *source, struct batch_text *text,
                                  struct fault *fault);

/* Reads a line again. *bytes is malloc'd. */
bool batch_source_again(const struct batch_source *source, int64_t offset, size_t size,
                        char **bytes, struct fault *fault);

#endif
