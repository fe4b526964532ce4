/* key_command.h - attnd key: makes keys, hashes them, and checks a file of them. */
#ifndef ATTND_KEY_COMMAND_H
#define ATTND_KEY_COMMAND_H

/* attnd key new NAME, attnd key hash, attnd key check FILE; argv[1] is "key". Returns the exit
 * status: 0; 1 with the reason on standard error; 2 where the command line is wrong. */
int key_command(int argc, char **argv);

#endif
