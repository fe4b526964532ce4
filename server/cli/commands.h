/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the commands beside the daemon. argv[1] is the word of the command; each returns the
 * exit status of the program. */
#ifndef ATTND_COMMANDS_H
#define ATTND_COMMANDS_H

/* attnd health [URL]: is a daemon ready? Asks URL/readyz, where URL is http://ADDR:PORT; without a
 * URL it asks the first address of ATTND_LISTEN, else --listen's default. 0 where the answer is
 * 200; otherwise 1, with the reason in one line on stderr. Takes at most 3 seconds, besides the
 * time to look up a host's name. */
int health_command(int argc, char **argv);

/* attnd key new NAME, attnd key hash, attnd key check FILE: makes keys, hashes them, and checks a
 * file of them. 0; 1 with the reason on standard error; 2 where the command line is wrong. */
int key_command(int argc, char **argv);

/* attnd model show PATH prints what a safetensors file or a model's directory holds; attnd model
 * new FILE makes a model from a seed. 0, of show for any well-formed safetensors file, with or
 * without an attnd config in it; 1 with the reason on standard error; 2 where the command line is
 * wrong. */
int model_command(int argc, char **argv);

#endif
