/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * register.c: the objects of this process that carry events: the executable, its libraries, what
 * dlopen brings and dlclose takes away. All under kymo_lock.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "internal.h"

struct kymo_module *kymo_modules;
static uint32_t next_index;

static uint32_t event_count(const struct kymo_module *module)
{
	return (uint32_t)(module->events_end - module->events);
}

struct kymo_event *kymo_event_find(uint32_t index)
{
	for (struct kymo_module *m = kymo_modules; m; m = m->next)
		if (index >= m->index_base && index - m->index_base < event_count(m))
			return &m->events[index - m->index_base];
	return NULL;
}

/* What the tracepoint looks at, from the set of slots that want the event. */
static void update_first(struct kymo_event *event)
{
	uint32_t enabled = event->enabled;
	const struct kymo_slot *first = NULL;

	if (enabled)
		first = &kymo_process->slots[__builtin_ctz(enabled)];
	if (enabled & (enabled - 1) || (enabled && kymo_kind != KYMO_KIND_RSEQ))
		first = &kymo_process->out_of_line;
	__atomic_store_n(&event->first, first, __ATOMIC_RELEASE);
}

void kymo_event_enable(struct kymo_event *event, uint32_t slot, uint16_t id)
{
	__atomic_store_n(&event->id[slot], id, __ATOMIC_RELEASE);
	__atomic_store_n(&event->enabled, event->enabled | 1u << slot, __ATOMIC_RELEASE);
	update_first(event);
}

void kymo_event_disable(struct kymo_event *event, uint32_t slot)
{
	__atomic_store_n(&event->enabled, event->enabled & ~(1u << slot), __ATOMIC_RELEASE);
	update_first(event);
	__atomic_store_n(&event->id[slot], 0, __ATOMIC_RELEASE);
}

void kymo_slot_disable_all(uint32_t slot)
{
	for (struct kymo_module *m = kymo_modules; m; m = m->next)
		for (struct kymo_event *event = m->events; event < m->events_end; event++)
			kymo_event_disable(event, slot);
}

KYMO_EXPORT void kymo__register(struct kymo_module *module)
{
	static bool started;
	bool first;

	if (module->abi != KYMO_ABI_VERSION || secure_getenv("KYMO_DISABLE"))
		return;
	kymo_lock();
	first = !started;
	started = true;
	if (first)
		kymo_runtime_init();
	module->rt = &kymo_runtime;
	module->index_base = next_index;
	next_index += event_count(module);
	for (uint32_t i = 0; i < event_count(module); i++)
		module->events[i].index = module->index_base + i;
	module->next = kymo_modules;
	kymo_modules = module;
	kymo_unlock();
	if (first)
		kymo_start();
	else
		kymo_announce(module);
}

KYMO_EXPORT void kymo__unregister(struct kymo_module *module)
{
	kymo_lock();
	for (struct kymo_module **at = &kymo_modules; *at; at = &(*at)->next)
		if (*at == module) {
			*at = module->next;
			kymo_retract(module);
			break;
		}
	kymo_unlock();
}
