/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tscclock.c: a clock plug-in for LTTng-UST (LTTNG_UST_CLOCK_PLUGIN) that reads the TSC. Debian's LTTng does not
 * come with one; this shows how much of the difference is the clock alone. It is printed for information and is
 * not the peer that the bars name.
 */
#include <lttng/ust-clock.h>
#include <string.h>
#include <x86intrin.h>

void lttng_ust_clock_plugin_init(void);

static uint64_t read64(void)
{
	return __rdtsc();
}

static uint64_t freq(void)
{
	return 1000000000ull; /* wrong, and of no consequence for the cost of a record */
}

static int uuid(char *text)
{
	memcpy(text, "00000000-0000-4000-8000-000000000001", LTTNG_UST_UUID_STR_LEN);
	return 0;
}

static const char *name(void)
{
	return "bench_tsc";
}

static const char *description(void)
{
	return "raw TSC";
}

void lttng_ust_clock_plugin_init(void)
{
	if (lttng_ust_trace_clock_set_read64_cb(read64) || lttng_ust_trace_clock_set_freq_cb(freq) ||
	    lttng_ust_trace_clock_set_uuid_cb(uuid) || lttng_ust_trace_clock_set_name_cb(name) ||
	    lttng_ust_trace_clock_set_description_cb(description))
		return;
	lttng_ust_enable_trace_clock_override();
}
