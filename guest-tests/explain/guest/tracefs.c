/* Small writes to the kernel's tracing files, and copies of what they show. */

#include "explain.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool write_text(const char *file, const char *text, int how)
{
	char path[512];
	snprintf(path, sizeof path, TRACEFS "%s", file);
	int fd = open(path, O_WRONLY | O_CLOEXEC | how);
	if (fd < 0)
		return false;
	ssize_t length = strlen(text);
	bool all = write(fd, text, length) == length;
	return close(fd) == 0 && all;
}

bool put(const char *file, const char *text)
{
	return write_text(file, text, O_TRUNC);
}

bool append(const char *file, const char *text)
{
	return write_text(file, text, O_APPEND);
}

/* A section of the capture: a line with name and length, then that many bytes. */
void copy_bytes(FILE *to, const char *name, const char *bytes, size_t length)
{
	fprintf(to, "section %s %zu\n", name, length);
	fwrite(bytes, 1, length, to);
}

/* Copies a file whose length nobody knows before it was read. */
void copy_section(FILE *to, const char *name, const char *path)
{
	char *bytes = NULL;
	size_t length = 0, room = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	while (fd >= 0) {
		if (room - length < 65536) {
			char *more = realloc(bytes, room = room ? room * 2 : 1 << 20);
			if (!more)
				break;
			bytes = more;
		}
		/* A page at a time: the ring buffer's raw files give whole pages. */
		ssize_t n = read(fd, bytes + length, 4096);
		if (n <= 0)
			break;
		length += n;
	}
	if (fd >= 0)
		close(fd);
	copy_bytes(to, name, bytes ? bytes : "", length);
	free(bytes);
}
