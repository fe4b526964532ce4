/* health_command.h - attnd health [URL]: is a daemon ready? */
#ifndef ATTND_HEALTH_COMMAND_H
#define ATTND_HEALTH_COMMAND_H

/* Asks URL/readyz, where URL is http://ADDR:PORT; without a URL it asks the first address of
 * ATTND_LISTEN, else --listen's default. Returns 0 where the answer is 200; otherwise 1, with the
 * reason in one line on stderr. Takes at most 3 seconds, besides the time to look up a host's name.
 * argv[1] is "health". */
int health_command(int argc, char **argv);

#endif
