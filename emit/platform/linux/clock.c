/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * clock.c: the clock of streams, and its relation to the time of day. Records have raw stamps; what
 * a reader sees is reckoned when it reads.
 */
#define _GNU_SOURCE
#include <time.h>

#include "../../src/tsc.h"
#include "linux.h"

#define FRACTION 40
#define NEAR_NS 2000000u
__extension__ typedef __int128 wide;

/* The first pair of this process: what a new stream knows of the frequency. */
static uint64_t first_stamp, first_mono_ns;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t kymop_clock_read(uint32_t clock)
{
#if KYMO_ARCH_X86_64
	if (clock == KYMO_CLOCK_TSC)
		return kymo__counter();
#endif
	(void)clock;
	return now_ns(CLOCK_MONOTONIC);
}

uint64_t kymop_clock_ordered(uint32_t clock)
{
#if KYMO_ARCH_X86_64
	__asm__ __volatile__("lfence" : : : "memory");
#endif
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return kymop_clock_read(clock);
}

uint32_t kymop_clock_kind(void)
{
	static uint32_t kind;
	const char *wish;

	if (kind)
		return kind;
	wish = secure_getenv("KYMO_CLOCK");
	kind = kymo_tsc_is_clock(wish ? wish : "") ? KYMO_CLOCK_TSC : KYMO_CLOCK_MONOTONIC;
	return kind;
}

/* A stamp and CLOCK_MONOTONIC as near to each other as three attempts give. */
static uint64_t pair(uint32_t clock, uint64_t *mono_ns)
{
	uint64_t best = UINT64_MAX, stamp = 0;

	for (unsigned i = 0; i < 3; i++) {
		uint64_t before = kymop_clock_ordered(clock);
		uint64_t ns = now_ns(CLOCK_MONOTONIC);
		uint64_t after = kymop_clock_ordered(clock);

		if (after - before >= best)
			continue;
		best = after - before;
		stamp = before + best / 2;
		*mono_ns = ns;
	}
	return stamp;
}

static uint64_t rate(uint64_t ns, uint64_t stamps)
{
	if (!stamps)
		return 1ull << FRACTION;
	return (uint64_t)(((wide)ns << FRACTION) / stamps);
}

static uint64_t ns_between(const struct kymop_base *base, uint64_t stamp)
{
	int64_t delta = (int64_t)(stamp - base->stamp);

	return (uint64_t)(int64_t)(((wide)delta * (int64_t)base->ns_per_stamp) >> FRACTION);
}

void kymop_clock_init(void)
{
	first_stamp = pair(kymop_clock_kind(), &first_mono_ns);
}

/* real_ns goes on by CLOCK_MONOTONIC: nobody who sets the clock makes a stream go back. */
void kymop_clock_begin(struct kymop_base *base, uint32_t clock)
{
	uint64_t mono_ns;

	base->clock = clock;
	base->stamp = pair(clock, &mono_ns);
	base->real_ns = now_ns(CLOCK_REALTIME);
	base->mono_ns = mono_ns;
	base->end_stamp = base->stamp;
	base->end_real_ns = base->real_ns;
	base->ns_per_stamp = clock == KYMO_CLOCK_TSC ?
				     rate(mono_ns - first_mono_ns, base->stamp - first_stamp) :
				     1ull << FRACTION;
}

/* Of a base whose pairs are given. */
void kymop_clock_rate(struct kymop_base *base)
{
	base->ns_per_stamp = rate(base->end_real_ns - base->real_ns, base->end_stamp - base->stamp);
	if (base->clock != KYMO_CLOCK_TSC)
		base->ns_per_stamp = 1ull << FRACTION;
}

void kymop_clock_update(struct kymop_base *base)
{
	uint64_t mono_ns;

	base->end_stamp = pair(base->clock, &mono_ns);
	base->end_real_ns = base->real_ns + (mono_ns - base->mono_ns);
	/* Between two times that are near, the older knowledge is better. */
	if (mono_ns - base->mono_ns < NEAR_NS)
		base->end_real_ns = base->real_ns + ns_between(base, base->end_stamp);
	else if (base->clock == KYMO_CLOCK_TSC)
		base->ns_per_stamp = rate(mono_ns - base->mono_ns, base->end_stamp - base->stamp);
}

/*
 * A frequency measured over a time is good for an eighth of it more; so a stream measures a few
 * times, whatever its length.
 */
uint64_t kymop_clock_ns(struct kymop_base *base, uint64_t stamp, bool is_active)
{
	int64_t delta = (int64_t)(stamp - base->stamp);

	if (is_active && delta > 0 &&
	    (uint64_t)delta > (base->end_stamp - base->stamp) / 8 * 9 + 1000000)
		kymop_clock_update(base);
	return base->real_ns + ns_between(base, stamp);
}
