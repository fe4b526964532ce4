/* SPDX-License-Identifier: Apache-2.0 */
/* batch_folder.h - the folder of a batch's answers: files for each chunk, and what they belong to.
 *
 *     batch.json            of which requests the answers are, and how they are cut
 *     chunk-000012.jsonl    a line for each request of the chunk, in their order
 *     chunk-000012.safetensors    where it is asked for: the tensors of the answers
 *
 * A file is written under a hidden name, synced and renamed, so what has its name is whole. The
 * lines get theirs last, and a chunk is there where all its files are. So a batch that ended at any
 * moment goes on behind the chunks that are there. A part of a batch is locked, by a byte of
 * batch.json, so that no two processes compute it. */
#ifndef ATTND_BATCH_FOLDER_H
#define ATTND_BATCH_FOLDER_H

#include "batch/batch_source.h"
#include "batch/batch_tensors.h"

#include <stdio.h>

enum { BATCH_NAME_BYTES = 64 };

struct batch_folder {
    const char *path;
    int64_t part, part_count;
    bool has_tensors;         /* a chunk has a file of them */
    int directory, described; /* descriptors: of it, and of its batch.json */
};

/* Opens the folder, which is made where it is missing, for the requests of source. False, with the
 * fault: it cannot be written to, or has the answers of another batch, or another process has the
 * part. On false nothing is left open. */
bool batch_folder_open(struct batch_folder *folder, const struct batch_source *source,
                       struct fault *fault);
/* At the end: puts the names of all chunks on disk. */
bool batch_folder_sync(const struct batch_folder *folder, struct fault *fault);
void batch_folder_close(struct batch_folder *folder);

/* Whether the answers of a chunk are there; and opens them, NULL: the fault. */
bool batch_folder_has(const struct batch_folder *folder, int64_t chunk);
FILE *batch_folder_read(const struct batch_folder *folder, int64_t chunk, struct fault *fault);

/* The answers of a chunk while they are written. name is that of its lines. */
struct batch_file {
    const struct batch_folder *folder;
    int64_t chunk;
    FILE *stream; /* NULL: none is written */
    char temporary[BATCH_NAME_BYTES], name[BATCH_NAME_BYTES];
    struct batch_tensors tensors;
};

bool batch_file_begin(struct batch_file *file, const struct batch_folder *folder, int64_t chunk,
                      struct fault *fault);
bool batch_file_add(struct batch_file *file, const char *bytes, size_t size, struct fault *fault);

/* The tensors of the answer that has this id, where the folder has tensors. */
bool batch_file_add_tensors(struct batch_file *file, const char *id,
                            const struct safetensors *answer, struct fault *fault);

/* Gives the files of the chunk their names. */
bool batch_file_commit(struct batch_file *file, struct fault *fault);

/* Removes what has not got its name. */
void batch_file_drop(struct batch_file *file);

#endif
