/* Which functions are in the graph.
 *
 * They are chosen by their number in the kernel's list: a pattern takes more than a second for each look
 * through the list on an emulated machine, numbers take none. */

#include "explain.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Modules all of whose functions are in the graph. */
static const char *const modules[] = {"ib_core", "ib_uverbs", "mlx5_ib", "mlx5_core"};

/* Functions of the kernel proper. */
static const char *const functions[] = {
	"pin_user_pages_fast", "internal_get_user_pages_fast", "gup_fast_fallback",
	"__gup_longterm_locked", "faultin_page", "unpin_user_page_range_dirty_lock",
	"unpin_user_pages_dirty_lock", "dma_map_sgtable", "dma_unmap_sg_attrs",
};

/* What the driver does whether anybody registers or not, and what only asks. */
static const char *const noise[] = {"poll_health*", "mlx5_health_*", "*_is_internal_error", "*is_down*"};

static bool wanted(const char *symbol, const char *module)
{
	for (size_t i = 0; i < COUNT(noise); i++)
		if (fnmatch(noise[i], symbol, 0) == 0)
			return false;
	for (size_t i = 0; i < COUNT(modules); i++)
		if (!strcmp(module, modules[i]))
			return true;
	for (size_t i = 0; i < COUNT(functions); i++)
		if (!*module && !strcmp(symbol, functions[i]))
			return true;
	return false;
}

void choose_functions(void)
{
	put("set_ftrace_filter", "");
	FILE *list = fopen(TRACEFS "available_filter_functions", "re");
	FILE *filter = fopen(TRACEFS "set_ftrace_filter", "ae");
	char line[512], symbol[256], module[64];
	for (unsigned number = 1; list && filter && fgets(line, sizeof line, list); number++) {
		*module = 0;
		if (sscanf(line, "%255s [%63[^]]]", symbol, module) >= 1 && wanted(symbol, module))
			fprintf(filter, "%u\n", number);
	}
	if (list)
		fclose(list);
	if (filter)
		fclose(filter);
}

/* Names of the functions in the graph: address, name and module, a line each. */
void write_symbols(FILE *to)
{
	char *bytes = NULL;
	size_t length = 0;
	FILE *kallsyms = fopen("/proc/kallsyms", "re");
	FILE *out = open_memstream(&bytes, &length);
	char line[512], symbol[256], module[64];
	unsigned long address;
	while (kallsyms && out && fgets(line, sizeof line, kallsyms)) {
		char type;
		*module = 0;
		if (sscanf(line, "%lx %c %255s [%63[^]]]", &address, &type, symbol, module) >= 3 &&
		    (type == 't' || type == 'T') && wanted(symbol, module))
			fprintf(out, "%lx %s %s\n", address, symbol, module);
	}
	if (kallsyms)
		fclose(kallsyms);
	if (out) {
		fclose(out);
		copy_bytes(to, "symbols", bytes, length);
		free(bytes);
	}
}
