/* The card's slot: the kernel lets go of the card, and looks for it again.
 *
 * Removing a device through sysfs is what the kernel does itself when a slot is unplugged: the driver is
 * told, and the device is gone when it has let go. That may take minutes, so it is a process's work. */

#include "guest.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_one(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) != 1)
		perror(path);
	if (fd >= 0)
		close(fd);
}

static void remove_card(void)
{
	glob_t found;
	if (glob("/sys/bus/pci/devices/*/vendor", 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *path = found.gl_pathv[i], *vendor = read_file(path, NULL);
		if (vendor && !strncmp(vendor, "0x15b3", 6)) {
			strcpy(strrchr(path, '/') + 1, "remove"); /* as long as "vendor" */
			write_one(path);
		}
		free(vendor);
	}
	globfree(&found);
}

void change_slot(bool plugged)
{
	if (fork() != 0)
		return;
	if (plugged)
		write_one("/sys/bus/pci/rescan");
	else
		remove_card();
	_exit(0);
}
