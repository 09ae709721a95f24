/* What the files of the guest's first program share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the launcher puts its files in the initramfs. */
#define JOB "/job/"

/* What the launcher asks for; init.c reads it from JOB "settings". */
struct settings {
	bool trial;	 /* only show that the kernel got this far */
	bool card;	 /* wait for an RDMA device */
	bool tty;	 /* the command gets a terminal */
	bool modules;	 /* there is a disk with modules */
	unsigned shares; /* how many host directories are shared */
	unsigned wait;	 /* seconds to wait for the RDMA device */
	unsigned rows, columns;
};

/* Reports a failure of the launcher's own work on the console, where the launcher looks for it, and
 * through the port when that is open; then powers off. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void power_off(void);

/* files.c */
char *read_file(const char *path, size_t *length);
bool copy_file(const char *from, const char *to, mode_t mode);
char **split_list(char *text, size_t length);
bool remove_tree(const char *path);

/* slot.c: lets the kernel look for the card, or let go of it. Does not wait for that. */
void change_slot(bool plugged);

/* job.c: the job's streams travel through one virtio-serial port. */
void port_open(void);
bool port_failed(const char *text);
_Noreturn void run_job(const struct settings *settings);
