/* SPDX-License-Identifier: Apache-2.0 */
/* batch_command.h - attnd batch over files of the fixture's directory. */
#ifndef BATCH_COMMAND_H
#define BATCH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* Runs attnd batch with these words, where REQUESTS and OUT stand for the files of these names. It
 * must end with the status. Returns what it printed, the caller's: where the status is 1 or 2, on
 * stderr. */
char *batch_command(const char *words, const char *requests, const char *out, int status);

/* Fails unless the words are in the text, and frees it. */
void batch_expect_said(char *text, const char *words);

/* Writes "many", of BATCH_LINES requests, and answers it into "whole" with this flag, if that has
 * not been done. */
enum { BATCH_LINES = 1200, BATCH_CHUNK = 120 };
void batch_make_whole(const char *flag);

/* Kills runs over "many" into "killed" with this flag, at moments within the seconds that a whole
 * run takes. Where one has ended before, its files must be those of "whole", and a new folder
 * begins. In the end it goes on to these files too. Some of the kills must have left some chunks,
 * and not all. */
void batch_kill_often(const char *flag, int kills);

/* Runs attnd batch in the directory, where files may have 512 * blocks bytes. It must end with the
 * status. Returns what it printed, the caller's. */
char *batch_command_with_small_files(int blocks, const char *words, int status);

/* A whole file of a folder in the directory; NULL: there is none. The caller frees it. The second
 * ends with a NUL byte, and has none before. */
char *batch_file_bytes(const char *folder, const char *name, size_t *size);
char *batch_file_text(const char *folder, const char *name);

/* The files of both folders must be the same, byte for byte; returns how many chunks there are. */
int batch_expect_same(const char *folder, const char *other);

/* Writes count small attentions, each with other numbers, and a fault now and then. */
void batch_write_many(const char *name, int count);

#endif
