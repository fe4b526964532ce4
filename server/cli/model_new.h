/* model_new.h - attnd model new: a model to begin with, from a seed. */
#ifndef ATTND_MODEL_NEW_H
#define ATTND_MODEL_NEW_H

#define MODEL_NEW_USAGE                                                                            \
    "attnd model new [--attention KIND] --d-model N [--q-heads N] [--kv-heads N] [--hidden N] "    \
    "[--layers N] [--seed S] [--force] FILE.safetensors"

/* argv[1] is "model", argv[2] is "new". Writes the file, whole or not at all; replaces an existing
 * file only with --force. Returns the exit status: 0; 1 with the reason on standard error; 2 where
 * the command line is wrong. */
int model_new(int argc, char **argv);

/* Prints the kinds and flags with their defaults. */
void model_new_help(void);

#endif
