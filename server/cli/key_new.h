/* key_new.h - attnd key new: a key at random, and its line of the keys' file. */
#ifndef ATTND_KEY_NEW_H
#define ATTND_KEY_NEW_H

#define KEY_NEW_USAGE "attnd key new NAME [--scope SCOPES]... [--LIMIT VALUE]... [--append FILE]"

/* argv[1] is "key", argv[2] is "new". Prints the key, and the line unless it is appended to a file.
 * Returns the exit status: 0; 1 with the reason on standard error, and then there is no key; 2
 * where the command line is wrong. */
int key_new(int argc, char **argv);

/* Prints the flags. */
void key_new_help(void);

#endif
