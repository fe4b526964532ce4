/* tiles.h - the permission to use the tiles of x86 (AMX). */
#ifndef ATTND_TILES_H
#define ATTND_TILES_H

/* Asks Linux that this process may use tiles: their state is large, and a thread that touches one
 * unasked is killed (SIGILL). Threads that begin later may use them too. Returns NULL, or in words
 * why not. Call it before any thread begins, and before system calls are given up. */
const char *tiles_refused(void);

#endif
