/* What the guest programs share: the device and memory of each kind.
 *
 * A guest program is compiled from one text: its files one after the other, in the order that
 * src/programs.rs gives. So no file includes another, and all names are static. */

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define HUGE_PAGE (2ul << 20)
#define MIB (1ul << 20)
#define ROUND_UP(value, unit) (((value) + (unit) - 1) / (unit) * (unit))

/* For what no case is about: there is nothing to go on with. */
static _Noreturn inline void give_up(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(1);
}

/* Whether the kernel is older than MAJOR.MINOR, for what it alone decides. */
static inline bool kernel_before(int major, int minor)
{
	struct utsname system;
	int own_major, own_minor;
	uname(&system);
	if (sscanf(system.release, "%d.%d", &own_major, &own_minor) != 2)
		return false;
	return own_major < major || (own_major == major && own_minor < minor);
}

/* Opens the device of this name, or the first. */
static inline struct ibv_context *open_device(const char *name)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;
	for (int i = 0; list && i < count && !context; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	if (!context)
		give_up(name ? name : "no RDMA device");
	return context;
}

static inline uint8_t *map(size_t length, int protection, int flags, int file)
{
	void *address = mmap(NULL, length, protection, flags, file, 0);
	if (address == MAP_FAILED)
		give_up("mmap");
	return address;
}

/* Writes to every page, in an order that scatters the frames: the kernel hands out neighbours. */
static inline void touch(uint8_t *address, size_t length)
{
	const size_t pages = length / PAGE, step = 7919;
	for (size_t i = 0; i < pages; i++) {
		size_t page = pages % step ? i * step % pages : i;
		*(uint64_t *)(address + page * PAGE) = page;
	}
}

/* Private memory in small pages with scattered frames. */
static inline uint8_t *small_pages(size_t length)
{
	length = ROUND_UP(length, PAGE);
	uint8_t *address = map(length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	/* A kernel without transparent huge pages refuses, and has none. */
	madvise(address, length, MADV_NOHUGEPAGE);
	touch(address, length);
	return address;
}

static inline long read_number(const char *path)
{
	long number = -1;
	FILE *file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%ld", &number) != 1)
			number = -1;
		fclose(file);
	}
	return number;
}

static inline bool write_text(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
	if (file >= 0)
		close(file);
	return written;
}

#define POOL "/proc/sys/vm/nr_hugepages"

/* Makes the pool of huge pages at least this large; false when the memory is too scattered for it. */
static inline bool want_huge_pages(long pages)
{
	char text[32];
	long have = read_number(POOL);
	if (have >= pages)
		return true;
	snprintf(text, sizeof text, "%ld", pages);
	return write_text(POOL, text) && read_number(POOL) >= pages;
}

/* Whether there is so much memory, and enough for the rest of the system to live on. */
static inline bool fits(size_t length)
{
	unsigned long kilobytes = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "MemAvailable: %lu kB", &kilobytes) == 1)
			break;
	if (file)
		fclose(file);
	return kilobytes * 1024 > length + 64 * MIB;
}
