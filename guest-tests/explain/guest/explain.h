/* What the files of the tracing program share. */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* tracefs.c: small writes to the kernel's tracing files. A file that a kernel lacks is no error. */
#define TRACEFS "/sys/kernel/tracing/"
bool put(const char *file, const char *text);
bool append(const char *file, const char *text);
void copy_section(FILE *to, const char *name, const char *path);
void copy_bytes(FILE *to, const char *name, const char *bytes, size_t length);

/* library.c: where functions are in the files of shared libraries. */
struct place {
	char file[256];
	unsigned long offset;
};
bool find_exported(const char *library, const char *symbol, struct place *place);
bool find_pointer(const void *function, struct place *place);

/* functions.c: the functions in the graph. */
void choose_functions(void);
void write_symbols(FILE *to);

/* probes.c: arguments, results and events. */
void set_up_probes(struct ibv_context *context);
void write_formats(FILE *to);

/* clock.c: pairs of the guest's and the card's time. */
void exchange_times(struct ibv_context *context, FILE *to);
