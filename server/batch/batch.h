/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - attnd batch: the requests of a file, answered into files.
 *
 * A window of requests is computed at a time, by all workers; their answers are written in the
 * order of their lines. What a chunk's file has depends on the chunk's lines alone, and on the
 * models, precision and kernels: not on the load, on other parts, or on what ended the process
 * before. */
#ifndef ATTND_BATCH_H
#define ATTND_BATCH_H

#include "batch/batch_folder.h"
#include "batch/batch_options.h"
#include "batch/batch_report.h"
#include "call/service.h"

enum { BATCH_EXIT_DONE = 0, BATCH_EXIT_ENDED = 1, BATCH_EXIT_USAGE = 2, BATCH_EXIT_FAULTS = 3 };

struct batch {
    const struct batch_options *options;
    struct batch_source source;
    struct batch_folder folder;
    struct batch_report report;
};

/* Opens the requests and the folder of answers, before models are loaded. On false nothing is left
 * open. */
bool batch_open(struct batch *batch, const struct batch_options *options,
                const struct config *config, struct fault *fault);
void batch_close(struct batch *batch);

/* Answers what is not answered yet. The service serves, and its answers repeat (service.h). Returns
 * the exit status; BATCH_EXIT_ENDED, with the fault: what is done stays. */
int batch_run(struct batch *batch, struct service *service, struct fault *fault);

#endif
