// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * frequency.c: processors with two frequencies, for machines that have no cpufreq: a driver to
 * the kernel's cpufreq core, which lists, limits and traces them as any others. A change stops the
 * CPU for as long as asked, which is what hardware does while its clock settles; what runs on the
 * CPU afterwards is as fast as before.
 */
#include "kymo_npt.h"

#include <linux/cpufreq.h>
#include <linux/smp.h>

#define SLOW_KHZ 800000
#define FAST_KHZ 2000000
#define LATENCY_NS 500000

static struct cpufreq_frequency_table table[] = {
	{ .frequency = SLOW_KHZ },
	{ .frequency = FAST_KHZ },
	{ .frequency = CPUFREQ_TABLE_END },
};
static u32 takes_us; /* of the change that is made; 0: of those that others ask for */
static bool is_registered;

static unsigned int fast_switch(struct cpufreq_policy *policy, unsigned int khz)
{
	if (takes_us)
		kymo_npt_busy(takes_us);
	return khz <= SLOW_KHZ ? SLOW_KHZ : FAST_KHZ;
}

static int target_index(struct cpufreq_policy *policy, unsigned int index)
{
	return 0;
}

static int policy_init(struct cpufreq_policy *policy)
{
	policy->freq_table = table;
	policy->cur = FAST_KHZ;
	policy->cpuinfo.transition_latency = LATENCY_NS;
	policy->fast_switch_possible = true;
	return 0;
}

/* No governor changes frequencies by itself: the delays that are ordered are all there are. */
static struct cpufreq_driver driver = {
	.name = "kymo_npt",
	.flags = CPUFREQ_NO_AUTO_DYNAMIC_SWITCHING,
	.init = policy_init,
	.verify = cpufreq_generic_frequency_table_verify,
	.target_index = target_index,
	.fast_switch = fast_switch,
};

int kymo_npt_frequency_begin(void)
{
	int error = is_registered ? 0 : cpufreq_register_driver(&driver);

	is_registered = !error;
	return error;
}

void kymo_npt_frequency_end(void)
{
	if (is_registered)
		cpufreq_unregister_driver(&driver);
}

void kymo_npt_change_frequency(u32 us)
{
	struct cpufreq_policy *policy = cpufreq_cpu_get_raw(smp_processor_id());

	if (!policy)
		return;
	takes_us = us;
	cpufreq_driver_fast_switch(policy, policy->cur == FAST_KHZ ? SLOW_KHZ : FAST_KHZ);
	takes_us = 0;
}
