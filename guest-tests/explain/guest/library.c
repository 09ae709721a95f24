/* Where functions are in the files of shared libraries: what user-space probes are set by. */

#include "explain.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Turns an address within a mapped segment into an offset in the file. */
struct search {
	ElfW(Addr) address;
	struct place *place;
	bool found;
};

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		ElfW(Addr) start = info->dlpi_addr + part->p_vaddr;
		if (part->p_type != PT_LOAD || search->address < start ||
		    search->address - start >= part->p_filesz)
			continue;
		snprintf(search->place->file, sizeof search->place->file, "%s", info->dlpi_name);
		search->place->offset = search->address - start + part->p_offset;
		search->found = *info->dlpi_name != 0;
		return 1;
	}
	return 0;
}

/* A function that a pointer leads to; for those that a library hides, like a provider's. */
bool find_pointer(const void *function, struct place *place)
{
	struct search search = {.address = (ElfW(Addr))function, .place = place};
	dl_iterate_phdr(look, &search);
	return search.found;
}

/* A function by its name, in the version that programs get today. */
bool find_exported(const char *library, const char *symbol, struct place *place)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	void *function = handle ? dlsym(handle, symbol) : NULL;
	bool found = function && find_pointer(function, place);
	if (handle)
		dlclose(handle);
	return found;
}
