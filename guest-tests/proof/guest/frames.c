/* Where memory really is: page frames from /proc/self/pagemap, page sizes from /proc/self/smaps. */

/* Belongs to the process that opened it; whoever is not privileged any more must have opened it before. */
static int pagemap = -1;

static void open_pagemap(void)
{
	if (pagemap >= 0)
		close(pagemap);
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		give_up("/proc/self/pagemap");
}

#define PRESENT (1ull << 63)
#define FRAME_MASK ((1ull << 55) - 1)

/* Prints the frames of a range as runs [first frame, count]; frame 0 stands for none. */
static void print_frames(const uint8_t *address, size_t length)
{
	uint64_t entries[512], first = 0, count = 0;
	uint64_t page = (uintptr_t)address / PAGE;
	uint64_t end = ROUND_UP((uintptr_t)address + length, PAGE) / PAGE;
	const char *comma = "";

	putchar('[');
	while (page < end) {
		size_t want = end - page < 512 ? end - page : 512;
		if (pread(pagemap, entries, want * 8, page * 8) != (ssize_t)want * 8)
			give_up("/proc/self/pagemap");
		for (size_t i = 0; i < want; i++) {
			uint64_t frame = entries[i] & PRESENT ? entries[i] & FRAME_MASK : 0;
			if (count && frame == (first ? first + count : 0)) {
				count++;
				continue;
			}
			if (count) {
				printf("%s[%llu,%llu]", comma, (unsigned long long)first,
				       (unsigned long long)count);
				comma = ",";
			}
			first = frame;
			count = 1;
		}
		page += want;
	}
	if (count)
		printf("%s[%llu,%llu]", comma, (unsigned long long)first, (unsigned long long)count);
	putchar(']');
}

/* One field, in bytes, of the mapping that holds an address. */
static size_t smaps_field(const uint8_t *address, const char *field)
{
	char line[512];
	size_t value = 0;
	bool inside = false;
	FILE *file = fopen("/proc/self/smaps", "re");
	if (!file)
		give_up("/proc/self/smaps");
	while (fgets(line, sizeof line, file)) {
		unsigned long from, to, kilobytes;
		char name[64];
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)address >= from && (uintptr_t)address < to;
		else if (inside && sscanf(line, "%63[^:]: %lu kB", name, &kilobytes) == 2 &&
			 !strcmp(name, field))
			value = kilobytes * 1024;
	}
	fclose(file);
	return value;
}
