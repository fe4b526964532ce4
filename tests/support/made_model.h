/* SPDX-License-Identifier: Apache-2.0 */
/* made_model.h - model files made up for a test. */
#ifndef MADE_MODEL_H
#define MADE_MODEL_H

#include "formats/safetensors.h"
#include "guard.h"

/* A safetensors file with config under "attnd" and the tensors of a list such as "q_proj.weight
 * 4x6, q_proj.bias 4". All are F32, and every number is value. The caller frees it; ends the
 * program if there is no memory. */
void *made_model(const char *config, const char *tensors, float value, size_t *size);

/* Reads a file of this header and data_size bytes of data. The file is in guard, which the
 * caller frees, and ends at an unreadable page. */
bool made_file_read(struct safetensors *file, struct guard_buffer *guard, const char *header,
                    size_t header_size, size_t data_size, struct fault *fault);

/* Writes a new file. Ends the program if that fails. */
void made_model_write(const char *path, const void *bytes, size_t size);

#endif
