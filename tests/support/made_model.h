/* made_model.h - model files made up for a test. */
#ifndef MADE_MODEL_H
#define MADE_MODEL_H

#include <stddef.h>

/* A safetensors file with config under "attnd" and the tensors of a list such as
 * "q_proj.weight 4x6, q_proj.bias 4": F32, every number is value. malloc'd, ends the program where
 * that fails. */
void *made_model(const char *config, const char *tensors, float value, size_t *size);

/* Writes a file anew; ends the program where that fails. */
void made_model_write(const char *path, const void *bytes, size_t size);

#endif
