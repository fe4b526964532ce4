/* model_file.h - a model that a client puts as JSON, as the file that it is kept as. */
#ifndef ATTND_MODEL_FILE_H
#define ATTND_MODEL_FILE_H

#include "text/json.h"

/* A safetensors file from a typed body:
 * {"config":{...},"parameters":{"q_proj.weight":[[...]],...}}. *bytes is malloc'd, the caller's. */
bool model_file_from_json(void **bytes, size_t *size, const struct json_document *document,
                          struct fault *fault);

#endif
