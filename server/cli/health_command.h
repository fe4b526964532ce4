/* health_command.h - attnd health [URL]: is a daemon ready? */
#ifndef ATTND_HEALTH_COMMAND_H
#define ATTND_HEALTH_COMMAND_H

/* Asks URL/readyz, where URL is http://ADDR:PORT, absent: the first address of ATTND_LISTEN, else
 * of --listen's default. 0 where the answer is 200; otherwise 1, with the reason in one line on
 * stderr. Takes 3 seconds at the most, apart from what looking up a host's name takes. argv[1] is
 * "health". */
int health_command(int argc, char **argv);

#endif
