/* model_command.h - attnd model show PATH, attnd model new FILE. */
#ifndef ATTND_MODEL_COMMAND_H
#define ATTND_MODEL_COMMAND_H

/* argv[1] is "model". show prints what a safetensors file or a model's directory holds; for new see
 * model_new.h. Returns the exit status: 0 for any well-formed safetensors file, with or without an
 * attnd config in it; 1 with the reason on standard error; 2 where the command line is wrong. */
int model_command(int argc, char **argv);

#endif
