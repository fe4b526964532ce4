/* SPDX-License-Identifier: Apache-2.0 */
/* model_file.h - turns a model that a client puts as JSON into the file that the store keeps. */
#ifndef ATTND_MODEL_FILE_H
#define ATTND_MODEL_FILE_H

#include "json/json.h"

/* Writes the safetensors file of a body
 * {"config":{...},"parameters":{"q_proj.weight":[[...]],...}}. *bytes is malloc'd, the caller's. */
bool model_file_from_json(void **bytes, size_t *size, const struct json_document *document,
                          struct fault *fault);

#endif
