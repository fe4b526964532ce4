/* SPDX-License-Identifier: Apache-2.0 */
/* batch_tensors.h - the tensors of a chunk's answers, gathered into one file of safetensors.
 *
 * Their numbers go to a file without a name as answers come, so that memory holds no more than what
 * the header will say of them. A tensor's name is CUSTOM_ID/NAME, where NAME is the one that it has
 * over HTTP. No NAME has a slash, and a chunk has an id once, so no two names are equal. Tensors of
 * 8 bytes a number stand first, then those of 4, 2 and 1, so that all are aligned; among these they
 * stand in the order of their lines. */
#ifndef ATTND_BATCH_TENSORS_H
#define ATTND_BATCH_TENSORS_H

#include "formats/safetensors.h"

#include <stdint.h>
#include <stdio.h>

struct batch_tensors {
    const char *folder; /* its path, for faults */
    FILE *numbers;      /* in the order in which they came; NULL: nothing is gathered */
    struct safetensors_tensor *tensors; /* [count], malloc'd, and so is each name; no values */
    int64_t count, capacity;
    size_t header_bytes; /* of the file at least */
};

/* Begins, with no tensor; temporary is a name in the folder that is used for a moment. */
bool batch_tensors_begin(struct batch_tensors *tensors, const char *folder, int directory,
                         const char *temporary, struct fault *fault);

/* Adds those of an answer. False, with the fault: the disk, no memory, or a header of more bytes
 * than the format's readers take. */
bool batch_tensors_add(struct batch_tensors *tensors, const char *id,
                       const struct safetensors *answer, struct fault *fault);

/* Writes the file; name is for faults. */
bool batch_tensors_write(struct batch_tensors *tensors, FILE *file, const char *name,
                         struct fault *fault);

void batch_tensors_free(struct batch_tensors *tensors);

/* Sets the fault of a file in the folder that cannot be written, by errno. name "": the folder.
 * Returns false. */
bool batch_fail_to_write(const char *folder, const char *name, struct fault *fault);

#endif
