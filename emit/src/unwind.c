/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * unwind.c: keeps the tables of all loaded files up to date, while a session wants call stacks
 * [context.md 4]. The helper thread does it, under kymo_lock, a piece at a time: whoever forks waits for
 * a piece at most. It reads the files' tables where they are mapped, by /proc/self/mem: what dlclose
 * takes away meanwhile, or a file that was cut short, is an error there and not a signal.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "unwind.h"

#if KYMO_ARCH_X86_64

/* Rows of all files; files that find no room have none. */
#define BYTES_MAX (64u << 20)
#define BYTES_FIRST (1u << 20)
/* Time of the processor for a piece, and how many functions it looks at before it looks at the clock. */
#define PIECE_NS 1000000
#define PIECE_ENTRIES 256u
/* How often the helper thread looks whether files were loaded or unloaded. */
#define WATCH_MS 100
#define WINDOWS 8u
#define WINDOW_BYTES 32768u
#define PAGE_BYTES 4096u
/* Memory of a file that is gone may be so many times too large for another one. */
#define UNUSED_TIMES 4u

/* A file as the loader lists it, and what was made of it. */
struct file {
	struct kymo_unwind_file made;
	struct kymo_unwind_block *block; /* made.block, to be given back */
	size_t search_table_bytes;
	uint64_t print; /* of the search table: another file in the same place has another */
	bool is_done;
};

/* A piece of the process, as it was when it was read. */
struct window {
	uintptr_t at;
	size_t bytes;
	uint8_t copy[WINDOW_BYTES];
};

/* Mapped when a session wants call stacks for the first time. */
struct state {
	struct file files[KYMO_UNWIND_FILES_MAX], listed[KYMO_UNWIND_FILES_MAX];
	uint32_t file_count, listed_count;
	unsigned long long adds, subs; /* the loader's counts, when it listed them */
	struct kymo_unwind_set sets[2]; /* one is published, the other one is written next */
	struct kymo_unwind_block *unused;
	/* The file that is being made. No set has its rows yet. */
	struct kymo_unwind_block *making;
	uint32_t making_file;
	bool is_changed;  /* a file is done that the published set does not have */
	size_t all_bytes; /* of all blocks */
	struct kymo_eh eh;
	uint32_t next_window;
	struct window windows[WINDOWS];
};

static struct state *state;
static bool is_helper; /* in this process, there is one */
static struct kymo_fd memory = { .number = -1 }; /* of the process itself, while a piece is made */
static int64_t watch_due_ns;

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Begins to read the process's memory; what was read before may have changed. */
static bool open_memory(void)
{
	for (uint32_t i = 0; i < WINDOWS; i++)
		state->windows[i].bytes = 0;
	memory = kymo_fd_keep(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
	return memory.number >= 0;
}

static struct window *find_window(uintptr_t at)
{
	struct window *window;
	ssize_t got;

	for (window = state->windows; window < state->windows + WINDOWS; window++)
		if (at >= window->at && at - window->at < window->bytes)
			return window;
	window = &state->windows[state->next_window++ % WINDOWS];
	window->bytes = 0;
	window->at = at & ~(uintptr_t)(PAGE_BYTES - 1);
	got = pread(memory.number, window->copy, WINDOW_BYTES, (off_t)window->at);
	if (got <= 0 || at - window->at >= (size_t)got)
		return NULL;
	window->bytes = (size_t)got;
	return window;
}

static bool read_memory(void *unused, uintptr_t at, void *to, size_t bytes)
{
	uint8_t *out = to;

	(void)unused;
	while (bytes) {
		const struct window *window = (intptr_t)at < 0 ? NULL : find_window(at);
		size_t offset, some;

		if (!window)
			return false;
		offset = at - window->at;
		some = window->bytes - offset < bytes ? window->bytes - offset : bytes;
		memcpy(out, window->copy + offset, some);
		out += some;
		at += some;
		bytes -= some;
	}
	return true;
}

/* Before memory is written to that a set had, or has been. */
static void warn_readers(void)
{
	__atomic_store_n(&kymo_unwind_generation, kymo_unwind_generation + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* What a search table begins with, and ends with; of a file without one, nothing. */
static uint64_t print_of(const struct file *file)
{
	uint8_t bytes[256];
	uint64_t print = 14695981039346656037u;
	size_t count = file->search_table_bytes < sizeof(bytes) ? file->search_table_bytes : sizeof(bytes);

	for (int end = 0; end < 2; end++) {
		size_t offset = end ? file->search_table_bytes - count : 0;

		if (pread(memory.number, bytes, count, (off_t)(file->made.search_table + offset)) != (ssize_t)count)
			return 0;
		for (size_t i = 0; i < count; i++)
			print = (print ^ bytes[i]) * 1099511628211u;
	}
	return print;
}

/* dl_iterate_phdr's callback; *count: files so far. Ends it where nothing has changed since the last time. */
static int list_file(struct dl_phdr_info *info, size_t bytes, void *count)
{
	struct file file = { .made = { .begin = UINTPTR_MAX } };
	uint32_t *before = count;

	(void)bytes;
	if (!*before && info->dlpi_adds == state->adds && info->dlpi_subs == state->subs)
		return 1;
	/* Here, where the loader's lists cannot change. */
	if (!*before)
		kymo_loader_learn(info->dlpi_adds);
	file.made.is_first = (*before)++ < kymo_loader_first_files();
	state->adds = info->dlpi_adds;
	state->subs = info->dlpi_subs;
	for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
			file.made.begin = at < file.made.begin ? at : file.made.begin;
			file.made.end = at + part->p_memsz > file.made.end ? at + part->p_memsz : file.made.end;
		} else if (part->p_type == PT_GNU_EH_FRAME) {
			file.made.search_table = at;
			file.search_table_bytes = part->p_memsz;
		}
	}
	if (file.made.begin < file.made.end && state->listed_count < KYMO_UNWIND_FILES_MAX)
		state->listed[state->listed_count++] = file;
	return 0;
}

/* By their code; a list is sorted nearly, or the other way round. */
static void sort_listed(void)
{
	for (uint32_t gap = state->listed_count / 2; gap; gap /= 2)
		for (uint32_t i = gap; i < state->listed_count; i++) {
			struct file file = state->listed[i];
			uint32_t at = i;

			for (; at >= gap && state->listed[at - gap].made.begin > file.made.begin; at -= gap)
				state->listed[at] = state->listed[at - gap];
			state->listed[at] = file;
		}
}

static bool is_same(const struct file *one, const struct file *other)
{
	return one->made.begin == other->made.begin && one->made.end == other->made.end &&
	       one->made.search_table == other->made.search_table &&
	       one->search_table_bytes == other->search_table_bytes && one->print == other->print;
}

/* Memory that no set has any more. A reader may be in it all the same. */
static void give_back(struct kymo_unwind_block *block)
{
	if (!block)
		return;
	block->next = state->unused;
	state->unused = block;
}

/* The set that is published next has the files that are done. */
static void publish(void)
{
	struct kymo_unwind_set *to = &state->sets[kymo_unwind_set == &state->sets[0]];
	uint32_t count = 0;

	warn_readers();
	for (uint32_t i = 0; i < state->file_count; i++) {
		const struct kymo_unwind_file *from = &state->files[i].made;
		struct kymo_unwind_file *file = &to->files[count];

		if (!state->files[i].is_done)
			continue;
		__atomic_store_n(&file->begin, from->begin, __ATOMIC_RELAXED);
		__atomic_store_n(&file->end, from->end, __ATOMIC_RELAXED);
		__atomic_store_n(&file->search_table, from->search_table, __ATOMIC_RELAXED);
		__atomic_store_n(&file->block, from->block, __ATOMIC_RELAXED);
		__atomic_store_n(&file->count, from->count, __ATOMIC_RELAXED);
		__atomic_store_n(&file->is_first, from->is_first, __ATOMIC_RELAXED);
		count++;
	}
	__atomic_store_n(&to->loaded, state->adds, __ATOMIC_RELAXED);
	__atomic_store_n(&to->count, count, __ATOMIC_RELAXED);
	__atomic_store_n(&kymo_unwind_set, to, __ATOMIC_RELEASE);
	state->is_changed = false;
}

/* The file that was being made is made no longer. No reader has seen its memory. */
static void stop_making(void)
{
	if (!state->making)
		return;
	state->all_bytes -= state->making->bytes;
	munmap(state->making, state->making->bytes);
	state->making = NULL;
}

/* Brings the list of files up to date, where the loader's has changed. */
static void list_files(void)
{
	struct kymo_unwind_block *gone = NULL, *next;
	uint32_t making_file = UINT32_MAX;
	uint32_t count = 0;

	state->listed_count = 0;
	if (dl_iterate_phdr(list_file, &count))
		return;
	sort_listed();
	for (uint32_t i = 0; i < state->listed_count; i++)
		state->listed[i].print = print_of(&state->listed[i]);
	for (uint32_t i = 0, k = 0; i < state->file_count; i++) {
		struct file *old = &state->files[i];

		while (k < state->listed_count && state->listed[k].made.begin < old->made.begin)
			k++;
		if (k < state->listed_count && is_same(old, &state->listed[k])) {
			making_file = i == state->making_file ? k : making_file;
			state->listed[k] = *old;
		} else if (old->block) {
			old->block->next = gone;
			gone = old->block;
		}
	}
	if (making_file == UINT32_MAX)
		stop_making();
	state->making_file = making_file;
	memcpy(state->files, state->listed, state->listed_count * sizeof(state->files[0]));
	state->file_count = state->listed_count;
	/* The first set is published with the first file: until then frame pointers serve. */
	if (kymo_unwind_set)
		publish();
	for (; gone; gone = next) {
		next = gone->next;
		give_back(gone);
	}
}

/* More memory for the file that is being made: twice as much. Returns false where there is none. */
static bool grow(void)
{
	size_t before = state->making ? state->making->bytes : 0, bytes = before ? 2 * before : BYTES_FIRST;
	struct kymo_unwind_block *block;

	if (state->all_bytes - before + bytes > BYTES_MAX || !kymo_memory_fits(bytes))
		return false;
	if (before)
		block = mremap(state->making, before, bytes, MREMAP_MAYMOVE);
	else
		block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		return false;
	state->all_bytes += bytes - before;
	block->bytes = bytes;
	block->capacity = (uint32_t)((bytes - sizeof(*block)) / sizeof(block->rows[0]));
	state->making = block;
	state->eh.rows = block->rows;
	state->eh.capacity = block->capacity;
	return true;
}

/* The smallest memory of a file that is gone which has room for count rows; null where there is none. */
static struct kymo_unwind_block *take_unused(uint32_t count)
{
	struct kymo_unwind_block **best = NULL, *block;

	for (struct kymo_unwind_block **at = &state->unused; *at; at = &(*at)->next)
		if ((*at)->capacity >= count && (*at)->capacity / UNUSED_TIMES <= count + PAGE_BYTES &&
		    (!best || (*at)->capacity < (*best)->capacity))
			best = at;
	if (!best)
		return NULL;
	block = *best;
	*best = block->next;
	return block;
}

/* The rows of the file that is being made are all there: to memory of their size. */
static struct kymo_unwind_block *settle(uint32_t count)
{
	struct kymo_unwind_block *block = take_unused(count), *making = state->making;
	size_t bytes = sizeof(*making) + count * sizeof(making->rows[0]);

	if (block) {
		warn_readers();
		for (uint32_t i = 0; i < count; i++) {
			__atomic_store_n(&block->rows[i].at, making->rows[i].at, __ATOMIC_RELAXED);
			__atomic_store_n(&block->rows[i].rule, making->rows[i].rule, __ATOMIC_RELAXED);
		}
		stop_making();
		return block;
	}
	bytes = (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	if (bytes < making->bytes && !munmap((uint8_t *)making + bytes, making->bytes - bytes)) {
		state->all_bytes -= making->bytes - bytes;
		making->bytes = bytes;
		making->capacity = (uint32_t)((bytes - sizeof(*making)) / sizeof(making->rows[0]));
	}
	kymo_touch(making, making->bytes);
	state->making = NULL;
	return making;
}

/* The file that is being made is done, with rows or without. */
static void end_file(bool has_rows)
{
	struct file *file = &state->files[state->making_file];
	uint32_t count = state->eh.count;

	if (has_rows && count) {
		file->block = settle(count);
		file->made.block = file->block;
		file->made.count = count;
	}
	stop_making();
	state->making_file = UINT32_MAX;
	file->is_done = state->is_changed = true;
}

static bool begin_file(uint32_t index)
{
	const struct file *file = &state->files[index];
	struct kymo_eh *eh = &state->eh;

	state->making_file = index;
	eh->read = read_memory;
	eh->begin = file->made.begin;
	eh->end = file->made.end;
	eh->search_table = file->made.search_table;
	return kymo_eh_begin(eh, file->search_table_bytes) && grow();
}

/* A file's next piece. Returns false where all are done. */
static bool make_piece(void)
{
	if (state->making_file == UINT32_MAX) {
		uint32_t index = 0;

		while (index < state->file_count && state->files[index].is_done)
			index++;
		if (index == state->file_count)
			return false;
		if (!begin_file(index))
			end_file(false);
		return true;
	}
	switch (kymo_eh_continue(&state->eh, PIECE_ENTRIES)) {
	case KYMO_EH_MORE:
		break;
	case KYMO_EH_FULL:
		if (!grow())
			end_file(false);
		break;
	case KYMO_EH_DONE:
		end_file(true);
	}
	return true;
}

/* Makes tables for so much time of the processor. Returns whether there is more to do. */
static bool make_for(int64_t most_ns)
{
	int64_t end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + most_ns;
	bool is_more;

	do
		is_more = make_piece();
	while (is_more && now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns);
	if (state->is_changed)
		publish();
	return is_more;
}

static bool prepare(void)
{
	void *at;

	if (!is_helper)
		return false;
	if (state)
		return true;
	at = kymo_memory_fits(sizeof(*state)) ? mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
						     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
	if (at == MAP_FAILED)
		return false;
	state = at;
	state->making_file = UINT32_MAX;
	kymo_touch(state->sets, sizeof(state->sets));
	return true;
}

/* Whether a session wants call stacks. */
static bool is_wanted(void)
{
	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		if (kymo_slot_session(slot) && kymo_memories[slot].contexts.bits & KYMO_CONTEXT_CALLSTACK)
			return true;
	return false;
}

/* One look, and one piece. Returns whether there is more to do. */
static bool work(int64_t most_ns)
{
	int64_t begin_ns = now_ns(CLOCK_MONOTONIC);
	bool is_more;

	if (!open_memory())
		return false;
	if (begin_ns >= watch_due_ns) {
		list_files();
		watch_due_ns = begin_ns + WATCH_MS * 1000000ll;
	}
	is_more = make_for(most_ns);
	kymo_fd_close(&memory);
	return is_more;
}

/* kymo_unwind_begin: the calling thread is the helper thread, and will call kymo_unwind_serve. */
void kymo_unwind_begin(void)
{
	is_helper = true;
}

/*
 * kymo_unwind_prepare: makes what it can of the tables in so much time of the processor, before a session
 * begins that wants call stacks: a program's first records shall have them.
 * Context: under kymo_lock. Does nothing on another thread than the helper thread.
 */
void kymo_unwind_prepare(int64_t most_ns)
{
	if (!prepare())
		return;
	watch_due_ns = 0;
	work(most_ns);
}

/*
 * kymo_unwind_serve: what is to be done for sessions that want call stacks.
 * Context: the helper thread, under kymo_lock. Returns: in how many milliseconds it wants to be called
 * again; -1: not at all.
 */
int kymo_unwind_serve(void)
{
	if (!is_helper || !is_wanted() || !prepare())
		return -1;
	return work(PIECE_NS) ? 0 : WATCH_MS;
}

/* kymo_unwind_after_fork: in a new child, which has the tables, and no helper thread yet. Under kymo_lock. */
void kymo_unwind_after_fork(void)
{
	is_helper = false;
	watch_due_ns = 0;
	if (!state)
		return;
	stop_making();
	state->making_file = UINT32_MAX;
}

#else

void kymo_unwind_begin(void)
{
}

void kymo_unwind_prepare(int64_t most_ns)
{
	(void)most_ns;
}

int kymo_unwind_serve(void)
{
	return -1;
}

void kymo_unwind_after_fork(void)
{
}

#endif
