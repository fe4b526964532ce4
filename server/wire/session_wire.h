/* session_wire.h - attention over sessions, in the forms of POST /v1/attention: JSON in and out,
 * and safetensors. */
#ifndef ATTND_SESSION_WIRE_H
#define ATTND_SESSION_WIRE_H

#include "infer/infer_wire.h"

extern const struct infer_wire session_wire_of_path;  /* POST /v1/sessions/{session}/attention */
extern const struct infer_wire session_wire_of_items; /* POST /v1/sessions/attention */

#endif
