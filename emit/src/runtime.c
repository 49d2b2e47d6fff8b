/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runtime.c: the state that instrumented objects reach through kymo__module.rt, the choice of ring and clock, and
 * thread ids that are right after any kind of fork.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "internal.h"
#include "kymo/tracepoint.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static const uint8_t zeros[KYMO_RECORD_MAX];
static void write_words(struct kymo_event *event, uint64_t bytes_and_wanted, uint64_t w0,
			uint64_t w1, uint64_t w2, uint64_t w3);
static void write_segs(struct kymo_event *event, uint32_t wanted, const struct kymo_seg *segs,
		       const struct kymo_seg *segs_end, uint64_t payload_bytes);

static __thread struct kymo_self self_tls __attribute__((tls_model("initial-exec")));
static uint32_t fallback_generation = 1;
static uint32_t *generation = &fallback_generation;
static uint32_t last_generation = 1;

uint32_t kymo_clock_kind = KYMO_CLOCK_MONOTONIC;

struct kymo_rt kymo_runtime = {
	.abi = KYMO_ABI_VERSION,
	.kind = KYMO_KIND_PORTABLE,
	.fork_generation = &fallback_generation,
	.zeros = zeros,
	.write_words = write_words,
	.write_segs = write_segs,
};

/* glibc 2.35 and later export these; elsewhere they are absent. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

struct kymo_self *kymo_self(void)
{
	return &self_tls;
}

#if KYMO_ARCH_X86_64
static bool tsc_is_clock(void)
{
	unsigned eax, ebx, ecx, edx;
	char name[16] = "";
	ssize_t got;
	int fd;

	if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || !(edx & (1u << 8)))
		return false;
	fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true; /* a sandbox without /sys: the processor's word has to do */
	got = read(fd, name, sizeof(name) - 1);
	close(fd);
	return got >= 3 && !memcmp(name, "tsc", 3);
}
#endif

uint64_t kymo_clock_read(void)
{
	struct timespec now;

#if KYMO_ARCH_X86_64
	if (kymo_clock_kind == KYMO_CLOCK_TSC)
		return kymo__tsc();
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The inline path runs only where clock and sequence are what it has built in. */
static void choose_kind(void)
{
#if KYMO_ARCH_X86_64
	const char *ring = secure_getenv("KYMO_RING");
	const char *clock = secure_getenv("KYMO_CLOCK");

	if ((!clock || strcmp(clock, "monotonic")) && tsc_is_clock())
		kymo_clock_kind = KYMO_CLOCK_TSC;
	if (kymo_clock_kind == KYMO_CLOCK_TSC && (!ring || strcmp(ring, "portable")) &&
	    &__rseq_size && &__rseq_offset && __rseq_size) {
		kymo_runtime.kind = KYMO_KIND_RSEQ;
		kymo_runtime.rseq_offset = __rseq_offset;
	}
	kymo_runtime.thread_offset = (char *)&self_tls.inline_part - kymo__thread_pointer();
#endif
}

/* A page that a child of any fork finds zeroed. Without it only pthread_atfork tells. */
static void make_generation(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	generation = page;
	*generation = last_generation;
	madvise(page, 4096, MADV_WIPEONFORK);
	kymo_runtime.fork_generation = generation;
}

void kymo_runtime_init(void)
{
	choose_kind();
	make_generation();
	kymo_portable_init();
	kymo__module.rt = &kymo_runtime; /* for ffi.c */
}

/* Gives the process a generation that no thread has: after a fork, or to make all threads come by. */
void kymo_generation_bump(void)
{
	uint32_t next = __atomic_add_fetch(&last_generation, 1, __ATOMIC_RELAXED);

	if (!next)
		next = __atomic_add_fetch(&last_generation, 1, __ATOMIC_RELAXED);
	__atomic_store_n(generation, next, __ATOMIC_RELAXED);
}

/*
 * kymo_refresh: brings a thread up to date. Returns false where it must not record.
 * Context: any; keeps errno. System calls only when the generation has moved.
 */
bool kymo_refresh(struct kymo_self *self)
{
	uint32_t now = __atomic_load_n(generation, __ATOMIC_RELAXED);

	if (now == (kymo_runtime.kind == KYMO_KIND_RSEQ ? self->inline_part.generation :
							   self->portable_generation))
		return true;
	if (!now) {
		/* A child made without pthread_atfork. It is the only thread here. */
		kymo_generation_bump();
		now = __atomic_load_n(generation, __ATOMIC_RELAXED);
		if (kymo_runtime.kind == KYMO_KIND_PORTABLE)
			for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
				kymo_portable_forget(slot);
	}
	self->inline_part.tid = (uint32_t)syscall(SYS_gettid);
	memset(self->claim, 0, sizeof(self->claim));
	if (kymo_runtime.kind == KYMO_KIND_RSEQ)
		self->inline_part.generation = now;
	else
		self->portable_generation = now;
	return true;
}

#if KYMO_ARCH_X86_64
static void count_loss(uint32_t slot, uintptr_t counter_offset)
{
	for (unsigned restarts = 0; restarts <= KYMO_RESTARTS; restarts++) {
		int outcome = kymo__sequence_count(kymo_runtime.rseq_offset,
						   &kymo_runtime.slots[slot], counter_offset);

		if (outcome == KYMO_WRITTEN)
			return;
		if (outcome == KYMO_NOWHERE) {
			kymo__sequence_clear(kymo_runtime.rseq_offset);
			break;
		}
	}
	kymo_count_restart_loss(slot);
}

static void rseq_write(struct kymo_event *event, uint32_t slot, const struct kymo_seg *segs,
		       const struct kymo_seg *segs_end, uint64_t payload_bytes)
{
	struct kymo_slot *to = &kymo_runtime.slots[slot];
	struct kymo__gather gather = { to, &event->id[slot], segs, segs_end,
				       KYMO_RECORD_HEADER + payload_bytes };
	unsigned restarts = 0;
	int outcome;

	if (gather.bytes > KYMO_RECORD_MAX ||
	    gather.bytes > __atomic_load_n(&to->room, __ATOMIC_RELAXED)) {
		if (__atomic_load_n(&to->cpu_count, __ATOMIC_RELAXED))
			count_loss(slot, offsetof(struct kymo_ring, lost_size));
		return;
	}
	do {
		outcome = kymo__sequence_segs(kymo_runtime.rseq_offset, &gather);
	} while (outcome == KYMO_ABORTED && restarts++ < KYMO_RESTARTS);
	if (outcome == KYMO_WRITTEN)
		return;
	kymo__sequence_clear(kymo_runtime.rseq_offset);
	if (outcome == KYMO_FULL)
		count_loss(slot, offsetof(struct kymo_ring, lost_full));
	else if (outcome != KYMO_OFF)
		kymo_spill(event, slot, segs, segs_end, payload_bytes);
}
#endif

static void write_segs(struct kymo_event *event, uint32_t wanted, const struct kymo_seg *segs,
		       const struct kymo_seg *segs_end, uint64_t payload_bytes)
{
	struct kymo_self *self = &self_tls;
	int saved_errno = errno;

	if (wanted && kymo_refresh(self)) {
		memcpy((void *)(uintptr_t)segs->at, &self->inline_part.tid, 4);
		for (; wanted; wanted &= wanted - 1) {
			uint32_t slot = (uint32_t)__builtin_ctz(wanted);

#if KYMO_ARCH_X86_64
			if (kymo_runtime.kind == KYMO_KIND_RSEQ) {
				rseq_write(event, slot, segs, segs_end, payload_bytes);
				continue;
			}
#endif
			kymo_portable_write(self, event, slot, segs, segs_end, payload_bytes);
		}
	}
	errno = saved_errno;
}

static void write_words(struct kymo_event *event, uint64_t bytes_and_wanted, uint64_t w0,
			uint64_t w1, uint64_t w2, uint64_t w3)
{
	uint64_t words[KYMO_WORDS_MAX] = { w0, w1, w2, w3 };
	struct kymo_seg seg = { words, (size_t)(bytes_and_wanted >> 32) };

	write_segs(event, (uint32_t)bytes_and_wanted, &seg, &seg + 1, seg.bytes);
}

KYMO_EXPORT void kymo_thread_init(void)
{
	struct kymo_self *self = &self_tls;
	int saved_errno = errno;

	kymo_refresh(self);
	if (kymo_runtime.kind == KYMO_KIND_PORTABLE)
		kymo_portable_claim_all(self);
	errno = saved_errno;
}

KYMO_EXPORT const char *kymo_version(void)
{
	return KYMO_VERSION;
}
