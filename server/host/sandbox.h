/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - what the process gives up, so that a fault in it does less harm (--sandbox).
 *
 * It has two halves, and each still stands where the system refuses the other. The half of files is
 * Landlock (https://docs.kernel.org/userspace-api/landlock.html): from then on the process opens
 * only what is listed. The half of calls is a filter of seccomp(2): from then on the process starts
 * no program, makes no connection but to a collector and where sessions move, and makes no memory
 * executable. Neither half can be undone. */
#ifndef ATTND_SANDBOX_H
#define ATTND_SANDBOX_H

#include "base/fault.h"

/* What the process may still do with a path. Each use covers all that lies beneath a folder. */
enum sandbox_use {
    SANDBOX_READS,   /* read files, list folders */
    SANDBOX_CHANGES, /* the same; make, write, rename and remove files too */
    SANDBOX_REMOVES, /* remove files, and nothing else */
    SANDBOX_WRITES,  /* read and write files that are there, of their length */
};

struct sandbox_path {
    const char *path; /* NULL, or a path that leads nowhere, is passed over */
    enum sandbox_use use;
    bool is_folder_of; /* the use is of the folder that the path lies in, and, if the path is a
                          link, of the folder of the file that it leads to: so that a file that
                          another one replaces is found again */
};

/* How much of it is in force. */
struct sandbox {
    int landlock_abi;   /* the version of the kernel's Landlock, from 1; 0: not in force */
    int landlock_error; /* the errno for which it is 0 */
    bool changes_files; /* a path is for SANDBOX_CHANGES */
    bool removes_files; /* a path is for SANDBOX_REMOVES */
    bool writes_files;  /* a path is for SANDBOX_WRITES */
    bool connects;      /* to a peer */
    bool looks_up;      /* a peer's name */
    bool filters;       /* the filter of calls is in force */
    int filter_error;   /* the errno for which it is not */
};

/* Whether this build can be in a sandbox; a build with a sanitizer cannot. */
bool sandbox_is_possible(struct fault *fault);

/* To whom the process still connects: ports of TCP. */
enum { SANDBOX_PORTS_MAX = 32 };
struct sandbox_peers {
    int ports[SANDBOX_PORTS_MAX];
    int count;
    bool looks_up; /* and to servers of DNS, for a peer has a name */
};

/* Gives up all files but the listed ones and those of /proc and /sys that the daemon reads itself,
 * and all TCP ports but those of the peers. It binds the calling thread and those that the thread
 * starts afterwards, so it comes before the first of them, and after the sockets are bound. Where
 * the kernel has no Landlock, only sandbox->landlock_error says so. */
void sandbox_leave_files(struct sandbox *sandbox, const struct sandbox_path *paths, int path_count,
                         const struct sandbox_peers *peers);

/* Gives up all system calls but those of a daemon that serves, in all threads. Logs which halves
 * are in force; a missing one is a warning. False where neither is. */
bool sandbox_leave_calls(struct sandbox *sandbox, struct fault *fault);

#endif
