// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * npt.c: npt's loop inside of the kernel, with interrupts or preemption off, and delays to be
 * found by those who look for them. For the virtual machines of lab/vm.
 *
 *	modprobe kymo_npt
 *	cd /sys/kernel/debug/kymo_npt
 *	echo 'run CPU LOOPS irqs|preempt|on' >control	the loop; returns when it is done
 *	cat result					what npt prints; kymo import reads it
 *	echo 'delay CPU US irqs|preempt|lock' >control	a busy wait of US microseconds
 *	echo 'delay CPU US frequency' >control		a change of the CPU's frequency that takes so long
 *	echo 'later CPU US hardirq' >control		the same in an interrupt, LATER_MS from now
 *	cat delays					begin and end of each delay, ns since 1970
 *
 * `lock` waits under a spinlock: nothing is pre-empted then on a stock kernel, whereas on
 * PREEMPT_RT it sleeps and is pre-empted like any code. The loop runs in pieces of PIECE turns:
 * with interrupts off for all of it the watchdogs would stop the machine. Between pieces
 * interrupts come in, and the gap that they make is no sample. A module is GPL to the kernel
 * where it uses these functions, so this file alone has a second licence.
 */
#include "kymo_npt.h"

#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#define BINS 100000	   /* of a nanosecond each */
#define PIECE 10000	   /* turns between two chances for interrupts */
#define LOOPS_MAX 1000000000ULL
#define DELAY_MAX_US 50000 /* less than what watchdogs and RCU take for a stall */
#define LATER_MS 60
#define DELAYS_MAX 256	   /* that are remembered; more than are ordered while one is due */
#define WARMUP 5
#define RULE "--------------------------\n"

enum mode { MODE_ON, MODE_PREEMPT, MODE_IRQS, MODE_LOCK, MODE_FREQUENCY, MODE_HARDIRQ };

static const char *const mode_names[] = { "on", "preempt", "irqs", "lock", "frequency", "hardirq" };

/* The last run. Written by its work on one CPU, read and begun under `lock`. */
struct run {
	enum mode mode;
	unsigned int cpu;
	u64 loops, done;
	u64 min, max, sum, squares; /* ns, ns^2 */
	u64 beyond;
	u32 *bins;
};

struct delay {
	enum mode mode;
	u32 us;
	u64 from_ns, to_ns; /* since 1970 */
};

static DEFINE_MUTEX(lock);
static DEFINE_SPINLOCK(held);
static struct run run;
static struct delay delays[DELAYS_MAX]; /* the last ones, written and read under `lock` */
static unsigned int delay_count;
static struct hrtimer later;
static struct delay *later_delay;
static struct dentry *folder;
static u64 mult; /* ns = (ticks * mult) >> 32 */

static void off(enum mode mode, unsigned long *flags)
{
	if (mode == MODE_IRQS || mode == MODE_FREQUENCY)
		local_irq_save(*flags);
	else if (mode == MODE_PREEMPT)
		preempt_disable();
	else if (mode == MODE_LOCK)
		spin_lock(&held);
}

static void on(enum mode mode, unsigned long flags)
{
	if (mode == MODE_IRQS || mode == MODE_FREQUENCY)
		local_irq_restore(flags);
	else if (mode == MODE_PREEMPT)
		preempt_enable();
	else if (mode == MODE_LOCK)
		spin_unlock(&held);
}

static u64 ns_of(u64 ticks)
{
	return mul_u64_u64_shr(ticks, mult, 32);
}

static void keep(u64 ns)
{
	run.sum += ns;
	run.squares += ns * ns;
	if (ns < run.min)
		run.min = ns;
	if (ns > run.max)
		run.max = ns;
	if (ns < BINS)
		run.bins[ns]++;
	else
		run.beyond++;
	run.done++;
}

/* At most PIECE samples, none of which has anything in it that happened before or after. */
static void piece(void)
{
	u64 before, now;
	unsigned int turn;

	before = rdtsc();
	for (turn = 0; turn < WARMUP; turn++)
		before = rdtsc();
	for (turn = 0; turn < PIECE && run.done < run.loops; turn++) {
		now = rdtsc();
		keep(ns_of(now - before));
		before = now;
	}
}

static long run_here(void *unused)
{
	unsigned long flags = 0;

	while (run.done < run.loops) {
		off(run.mode, &flags);
		piece();
		on(run.mode, flags);
		cond_resched();
	}
	return 0;
}

void kymo_npt_busy(u32 us)
{
	u64 end = rdtsc() + div64_u64((u64)us * 1000 << 32, mult);

	while (rdtsc() < end)
		cpu_relax();
}

/* delay_here: keeps the CPU that long. */
static long delay_here(void *argument)
{
	struct delay *delay = argument;
	unsigned long flags = 0;

	off(delay->mode, &flags);
	delay->from_ns = ktime_get_real_fast_ns();
	if (delay->mode == MODE_FREQUENCY)
		kymo_npt_change_frequency(delay->us);
	else
		kymo_npt_busy(delay->us);
	delay->to_ns = ktime_get_real_fast_ns();
	on(delay->mode, flags);
	return 0;
}

/* Context: hard interrupt, on PREEMPT_RT, too. */
static enum hrtimer_restart later_expires(struct hrtimer *timer)
{
	later_delay->from_ns = ktime_get_real_fast_ns();
	kymo_npt_busy(later_delay->us);
	later_delay->to_ns = ktime_get_real_fast_ns();
	return HRTIMER_NORESTART;
}

static long later_here(void *unused)
{
	hrtimer_start(&later, ms_to_ktime(LATER_MS), HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static int mode_of(const char *name)
{
	return match_string(mode_names, ARRAY_SIZE(mode_names), name);
}

/* begin: forgets the last run. Context: lock is held. */
static int begin(unsigned int cpu, u64 loops, enum mode mode)
{
	u32 *bins = run.bins;

	if (!loops || loops > LOOPS_MAX)
		return -ERANGE;
	if (!bins) {
		bins = vzalloc(BINS * sizeof(*bins));
		if (!bins)
			return -ENOMEM;
	}
	memset(bins, 0, BINS * sizeof(*bins));
	run = (struct run){ .mode = mode, .cpu = cpu, .loops = loops, .min = U64_MAX, .bins = bins };
	return 0;
}

/* Context: lock is held. */
static struct delay *next_delay(enum mode mode, u32 us)
{
	struct delay *delay = &delays[delay_count++ % DELAYS_MAX];

	*delay = (struct delay){ .mode = mode, .us = us };
	return delay;
}

static int command(char *text)
{
	char verb[8], name[12];
	unsigned int cpu;
	u64 number;
	int mode;

	if (sscanf(text, "%7s %u %llu %11s", verb, &cpu, &number, name) != 4)
		return -EINVAL;
	mode = mode_of(name);
	if (mode < 0)
		return mode;
	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -ENODEV;
	if (!strcmp(verb, "run"))
		return mode > MODE_IRQS ? -EINVAL : begin(cpu, number, mode) ?: work_on_cpu(cpu, run_here, NULL);
	if (!number || number > DELAY_MAX_US)
		return -ERANGE;
	if (mode == MODE_FREQUENCY) {
		int error = kymo_npt_frequency_begin();

		if (error)
			return error;
	}
	if (!strcmp(verb, "delay") && mode != MODE_ON && mode != MODE_HARDIRQ)
		return work_on_cpu(cpu, delay_here, next_delay(mode, number));
	if (!strcmp(verb, "later") && mode == MODE_HARDIRQ) {
		hrtimer_cancel(&later);
		later_delay = next_delay(mode, number);
		return work_on_cpu(cpu, later_here, NULL);
	}
	return -EINVAL;
}

static ssize_t control_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char text[64];
	int error;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, size))
		return -EFAULT;
	text[size] = 0;
	error = mutex_lock_interruptible(&lock);
	if (error)
		return error;
	error = command(text);
	mutex_unlock(&lock);
	return error ? error : size;
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = control_write,
	.llseek = noop_llseek,
};

/* The form of the original's output, so that what reads that reads this. */
static int result_show(struct seq_file *out, void *unused)
{
	u64 mean_ps, squares;
	unsigned int bin, std_ps;

	mutex_lock(&lock);
	if (!run.done) {
		mutex_unlock(&lock);
		return 0;
	}
	mean_ps = mul_u64_u64_div_u64(run.sum, 1000, run.done);
	squares = mul_u64_u64_div_u64(run.squares, 1000000, run.done);
	std_ps = squares > mean_ps * mean_ps ? int_sqrt64(squares - mean_ps * mean_ps) : 0;
	seq_printf(out, "# CPU affinity set on CPU %u\n# kymo_npt: %s off\n", run.cpu,
		   run.mode == MODE_IRQS ? "interrupts" : run.mode == MODE_PREEMPT ? "preemption" : "nothing");
	seq_printf(out, "%llu loops done.\nLoops duration:\n", run.done);
	seq_printf(out, "\tmin:\t\t%llu ns\n\tmax:\t\t%llu ns\n", run.min, run.max);
	seq_printf(out, "\tmean:\t\t%llu.%03llu ns\n", mean_ps / 1000, mean_ps % 1000);
	seq_printf(out, "\tsum:\t\t%llu ns\n", run.sum);
	seq_printf(out, "\tstd dev:\t%u.%03u ns\n", std_ps / 1000, std_ps % 1000);
	seq_puts(out, RULE "duration (ns)\tnb. loops\n" RULE);
	for (bin = 0; bin < BINS; bin++)
		if (run.bins[bin])
			seq_printf(out, "%u\t\t%u\n", bin, run.bins[bin]);
	seq_printf(out, RULE "Overruns (%u+): %llu\n", BINS, run.beyond);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(result);

static int delays_show(struct seq_file *out, void *unused)
{
	unsigned int number;

	mutex_lock(&lock);
	number = delay_count > DELAYS_MAX ? delay_count - DELAYS_MAX : 0;
	for (; number < delay_count; number++) {
		const struct delay *delay = &delays[number % DELAYS_MAX];

		seq_printf(out, "%llu %llu %s\n", delay->from_ns, delay->to_ns, mode_names[delay->mode]);
	}
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(delays);

/* Ticks against the kernel's clock, over 20 ms. */
static void calibrate(void)
{
	u64 ns = ktime_get_raw_ns(), ticks = rdtsc();

	mdelay(20);
	ns = ktime_get_raw_ns() - ns;
	mult = div64_u64(ns << 32, rdtsc() - ticks);
}

static int __init kymo_npt_init(void)
{
	calibrate();
	hrtimer_init(&later, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	later.function = later_expires;
	folder = debugfs_create_dir("kymo_npt", NULL);
	debugfs_create_file("control", 0200, folder, NULL, &control_operations);
	debugfs_create_file("result", 0400, folder, NULL, &result_fops);
	debugfs_create_file("delays", 0400, folder, NULL, &delays_fops);
	return PTR_ERR_OR_ZERO(folder);
}

static void __exit kymo_npt_exit(void)
{
	debugfs_remove_recursive(folder);
	hrtimer_cancel(&later);
	kymo_npt_frequency_end();
	vfree(run.bins);
}

module_init(kymo_npt_init);
module_exit(kymo_npt_exit);
MODULE_DESCRIPTION("npt's loop with interrupts or preemption off, and delays to be found");
MODULE_LICENSE("Dual MIT/GPL");
