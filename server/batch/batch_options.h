/* SPDX-License-Identifier: Apache-2.0 */
/* batch_options.h - the command line of attnd batch: its own flags, and those of the daemon. */
#ifndef ATTND_BATCH_OPTIONS_H
#define ATTND_BATCH_OPTIONS_H

#include "host/config.h"

#include <stdint.h>

struct batch_options {
    const char *requests, *out;
    int64_t part, part_count; /* from 0 */
    int64_t chunk_lines;
    bool has_tensors; /* answers are safetensors, where they can be */
};

/* Whether a command line is attnd batch's. */
bool batch_is_asked(int argc, char **argv);

/* Reads it, as config_read() reads the daemon's, which it calls; of its settings it sets those that
 * a batch does not have: time and places in the queue. */
enum config_outcome batch_options_read(struct batch_options *options, struct config *config,
                                       int argc, char **argv);

#endif
