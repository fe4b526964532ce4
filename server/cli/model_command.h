/* model_command.h - attnd model show PATH, attnd model new FILE. */
#ifndef ATTND_MODEL_COMMAND_H
#define ATTND_MODEL_COMMAND_H

/* argv[1] is "model"; new is model_new.h's. show prints what a safetensors file or a model's
 * directory holds. Returns the exit status: 0 for any well-formed safetensors file, with or without
 * a config of ours; 1 with the reason on standard error; 2 where the command itself is wrong. */
int model_command(int argc, char **argv);

#endif
