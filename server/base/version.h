/* version.h - the version of this source, as --version, the log and the metrics tell it. */
#ifndef ATTND_VERSION_H
#define ATTND_VERSION_H

#define ATTND_VERSION "0.1.0"

#endif
