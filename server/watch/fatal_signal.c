/* fatal_signal.c - see fatal_signal.h.
 *
 * The handler itself writes nothing: the log's thread runs on meanwhile and does, once the few
 * milliseconds are over in which it gathers lines. It is that thread that may have been hit, or
 * its mutex be held for ever, or nobody read; then the time runs out. */
#include "watch/fatal_signal.h"

#include "watch/log_writer.h"

#include <signal.h>
#include <stddef.h>

enum { SETTLE_MS_MAX = 200 };

void fatal_signal_end(int signal_number)
{
    log_writer_settle(SETTLE_MS_MAX);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void fatal_signal_install(void)
{
    static const int SIGNALS[] = { SIGSEGV, SIGABRT, SIGFPE, SIGILL };
    const struct sigaction action = { .sa_handler = fatal_signal_end };
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        struct sigaction before;
        if (sigaction(SIGNALS[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(SIGNALS[i], &action, NULL);
    }
}
