/* SPDX-License-Identifier: Apache-2.0 */
/* example.h - runs the programs in examples/ against a daemon, as a reader would run them. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "daemon.h"

#include <cjson/cJSON.h>

enum { EXAMPLE_OUTPUT_BYTES = 16384 };

/* Runs a command with a daemon's address behind it and reads its output. The command must end with
 * 0. */
void example_run(const char *command, const struct daemon *daemon,
                 char output[EXAMPLE_OUTPUT_BYTES]);

/* Compiles sources with the libraries that the examples use into directory/name. The caller frees
 * the program's path. */
char *example_build(const char *directory, const char *name, const char *sources);

/* The ids of stories260K's greedy decoding from the first token alone, as another project computed
 * them. The caller frees them. */
cJSON *example_greedy_ids(void);

#endif
