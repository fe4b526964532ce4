/* made_model.h - model files made up for a test. */
#ifndef MADE_MODEL_H
#define MADE_MODEL_H

#include "format/safetensors.h"
#include "guard.h"

/* A safetensors file with config under "attnd" and the tensors of a list such as
 * "q_proj.weight 4x6, q_proj.bias 4": F32, every number is value. malloc'd, ends the program where
 * that fails. */
void *made_model(const char *config, const char *tensors, float value, size_t *size);

/* Reads a file of that header and data_size bytes of data. The file is in guard, for the caller to
 * free, and ends at an unreadable page. */
bool made_file_read(struct safetensors *file, struct guard_buffer *guard, const char *header,
                    size_t header_size, size_t data_size, struct fault *fault);

/* Writes a file anew; ends the program where that fails. */
void made_model_write(const char *path, const void *bytes, size_t size);

#endif
