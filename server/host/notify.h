/* notify.h - tells the service manager the daemon's state, as systemd's Type=notify expects. */
#ifndef ATTND_NOTIFY_H
#define ATTND_NOTIFY_H

/* Sends one or several lines of sd_notify(3), such as "READY=1", to the socket that the environment
 * variable NOTIFY_SOCKET names. Does nothing without the variable, and only logs a warning where
 * the socket cannot be reached. */
void notify(const char *lines);

/* Connects to the manager, where there is one, for a process that can open no socket later: from
 * then on notify() uses this connection. Called before threads start. */
void notify_keep(void);

#endif
