/* SPDX-License-Identifier: Apache-2.0 */
/* oip_handlers.h - the handlers of the Open Inference Protocol v2, except health (health.h) and
 * inference (operations/oip.h). Each resource has its file. */
#ifndef ATTND_OIP_HANDLERS_H
#define ATTND_OIP_HANDLERS_H

#include "http/http.h"

/* oip_server.c */
void oip_server_metadata(struct exchange *exchange);
void oip_server_models(struct exchange *exchange);

/* oip_model.c: {model}, or {model} and {version} */
void oip_model_metadata(struct exchange *exchange);
void oip_model_ready(struct exchange *exchange);
void oip_model_config(struct exchange *exchange);

/* oip_statistics.c: of one model, of all */
void oip_statistics_one(struct exchange *exchange);
void oip_statistics_all(struct exchange *exchange);

/* oip_repository.c: all models; one {model}; any of it in a named {repository}, which is refused */
void oip_repository_index(struct exchange *exchange);
void oip_repository_load(struct exchange *exchange);
void oip_repository_unload(struct exchange *exchange);
void oip_repository_named(struct exchange *exchange);

/* oip_logging.c */
void oip_logging_get(struct exchange *exchange);
void oip_logging_set(struct exchange *exchange);

/* oip_shared_memory.c: all regions of the key; one {region}. The same of CUDA, which has none */
void oip_shared_memory_status(struct exchange *exchange);
void oip_shared_memory_status_one(struct exchange *exchange);
void oip_shared_memory_register(struct exchange *exchange);
void oip_shared_memory_unregister(struct exchange *exchange);
void oip_shared_memory_unregister_one(struct exchange *exchange);
void oip_cuda_memory_status(struct exchange *exchange);
void oip_cuda_memory_status_one(struct exchange *exchange);
void oip_cuda_memory_register(struct exchange *exchange);
void oip_cuda_memory_unregister(struct exchange *exchange);

#endif
