/* Small file helpers of the guest's first program. */

#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the whole file, followed by a zero byte, or NULL. */
char *read_file(const char *path, size_t *length)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	size_t used = 0, room = 4096;
	char *text = malloc(room + 1);
	for (;;) {
		if (!text)
			break;
		ssize_t n = read(fd, text + used, room - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += n;
		if (used == room) {
			room *= 2;
			text = realloc(text, room + 1);
		}
	}
	close(fd);
	if (!text)
		return NULL;
	text[used] = 0;
	if (length)
		*length = used;
	return text;
}

bool copy_file(const char *from, const char *to, mode_t mode)
{
	size_t length;
	char *text = read_file(from, &length);
	if (!text)
		return false;
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	bool good = fd >= 0;
	for (size_t done = 0; good && done < length;) {
		ssize_t n = write(fd, text + done, length - done);
		if (n < 0 && errno != EINTR)
			good = false;
		else if (n > 0)
			done += n;
	}
	if (fd >= 0 && close(fd) != 0)
		good = false;
	free(text);
	return good;
}

/* Splits strings that end in zero bytes into an array that ends in NULL. */
char **split_list(char *text, size_t length)
{
	size_t count = 0;
	for (size_t i = 0; i < length; i++)
		count += text[i] == 0;
	char **list = calloc(count + 1, sizeof *list);
	for (size_t i = 0; list && i < count; i++) {
		list[i] = text;
		text += strlen(text) + 1;
	}
	return list;
}

/* Gives the memory of what lies in the initramfs back. */
bool remove_tree(const char *path)
{
	DIR *directory = opendir(path);
	if (!directory)
		return unlink(path) == 0;
	struct dirent *entry;
	while ((entry = readdir(directory))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		char name[512];
		snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
		remove_tree(name);
	}
	closedir(directory);
	return rmdir(path) == 0;
}
