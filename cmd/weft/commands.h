/* commands.h - the commands of `weft`.  Each gets the words behind its name, and returns the exit status. */
#ifndef WEFT_CMD_COMMANDS_H
#define WEFT_CMD_COMMANDS_H

int command_node(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_export(int argc, char **argv);
int command_tx(int argc, char **argv);
int command_load(int argc, char **argv);

#endif
