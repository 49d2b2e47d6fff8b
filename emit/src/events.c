/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * events.c: the events of all objects of this process, and which slots want them: what tracepoints look at.
 * All under kymo_lock.
 */
#include "filter.h"

struct kymo_module *kymo_modules;
uint32_t kymo_events_end;

struct kymo_event *kymo_event_find(uint32_t index)
{
	for (struct kymo_module *m = kymo_modules; m; m = m->next)
		if (index >= m->index_base && index - m->index_base < kymo_event_count(m))
			return &m->events[index - m->index_base];
	return NULL;
}

/* Whether one of these slots wants only some records of the event. Says which filter comes first. */
static bool prepare_filters(struct kymo_event *event, uint32_t slots)
{
	const struct kymo_filter *only = NULL;
	uintptr_t word = 0;
	bool is_filtered = false;

	if (!event->filters)
		return false;
	for (uint32_t left = slots; left; left &= left - 1)
		is_filtered |= event->filters->of[__builtin_ctz(left)] != NULL;
	if (is_filtered && !(slots & (slots - 1)))
		only = event->filters->of[__builtin_ctz(slots)];
	if (only && only->chain) {
		word = (uintptr_t)only | (uintptr_t)__builtin_ctz(slots);
		if (only->steps[only->chain - 1].yes == KYMO_FILTER_ACCEPT && !kymo_any_clockless)
			word |= KYMO_ONLY_DECIDES;
	}
	__atomic_store_n(&event->filters->only, word, __ATOMIC_RELEASE);
	return is_filtered;
}

/* What the tracepoint looks at, from the set of slots that want the event. */
static void update_first(struct kymo_event *event)
{
	uint32_t enabled = event->enabled;
	bool is_filtered = prepare_filters(event, enabled);
	bool has_contexts = false;
	const struct kymo_slot *first = NULL;

	if (enabled)
		first = &kymo_process->slots[__builtin_ctz(enabled)];
	for (uint32_t left = enabled; left; left &= left - 1)
		has_contexts |= kymo_with_contexts[__builtin_ctz(left)];
	if (enabled & (enabled - 1))
		first = &kymo_process->several;
	if (enabled && (kymo_kind != KYMO_KIND_RSEQ || has_contexts))
		first = enabled & (enabled - 1) ? &kymo_process->out_of_line :
						  &kymo_process->alone[__builtin_ctz(enabled)];
	if (enabled && (is_filtered || kymo_any_clockless))
		first = &kymo_process->out_of_line;
	__atomic_store_n(&event->first, first, __ATOMIC_RELEASE);
}

/* kymo_events_update: after kymo_any_clockless has changed. */
void kymo_events_update(void)
{
	for (struct kymo_module *m = kymo_modules; m; m = m->next)
		for (struct kymo_event *event = m->events; event < m->events_end; event++)
			update_first(event);
}

/*
 * Before a slot is added to those that want the event: it may have a filter or contexts. Who sees
 * it in enabled no longer sees several in first.
 */
static void leave_several(struct kymo_event *event)
{
	if (event->first == &kymo_process->several)
		__atomic_store_n(&event->first, &kymo_process->out_of_line, __ATOMIC_RELEASE);
}

void kymo_event_enable(struct kymo_event *event, uint32_t slot, uint16_t id)
{
	__atomic_store_n(&event->id[slot], id, __ATOMIC_RELEASE);
	leave_several(event);
	__atomic_store_n(&event->enabled, event->enabled | 1u << slot, __ATOMIC_RELEASE);
	update_first(event);
}

void kymo_event_disable(struct kymo_event *event, uint32_t slot)
{
	__atomic_store_n(&event->enabled, event->enabled & ~(1u << slot), __ATOMIC_RELEASE);
	update_first(event);
	__atomic_store_n(&event->id[slot], 0, __ATOMIC_RELEASE);
}

/* kymo_event_filters: of an event, made with the first filter. Returns null without memory. */
struct kymo_filters *kymo_event_filters(struct kymo_event *event)
{
	if (!event->filters)
		__atomic_store_n(&event->filters, kymo_filters_new(event->desc), __ATOMIC_RELEASE);
	return event->filters;
}

/* kymo_event_filter: what the slot wants of the event; null: all. Holds until the slot is off. */
void kymo_event_filter(struct kymo_event *event, uint32_t slot, const struct kymo_filter *filter)
{
	if (!event->filters)
		return;
	__atomic_store_n(&event->filters->of[slot], filter, __ATOMIC_RELEASE);
	update_first(event);
}

/*
 * kymo_slot_prepare: the ids and filters of a slot, for another one that is off [ring.md 5.6].
 */
void kymo_slot_prepare(uint32_t from, uint32_t to)
{
	for (struct kymo_module *m = kymo_modules; m; m = m->next)
		for (struct kymo_event *event = m->events; event < m->events_end; event++) {
			if (event->filters)
				__atomic_store_n(&event->filters->of[to], event->filters->of[from],
						 __ATOMIC_RELEASE);
			__atomic_store_n(&event->id[to], event->id[from], __ATOMIC_RELEASE);
		}
}

/*
 * kymo_slot_move: gives the events of a slot to a prepared one that is on. One store for each: a
 * record goes to one of the two, never to both. What stands in the first slot stays for threads
 * that have decided for it already.
 */
void kymo_slot_move(uint32_t from, uint32_t to)
{
	for (struct kymo_module *m = kymo_modules; m; m = m->next)
		for (struct kymo_event *event = m->events; event < m->events_end; event++) {
			if (!(event->enabled & 1u << from))
				continue;
			__atomic_store_n(&event->enabled, (event->enabled & ~(1u << from)) | 1u << to,
					 __ATOMIC_RELEASE);
			update_first(event);
		}
}

void kymo_slot_disable_all(uint32_t slot)
{
	for (struct kymo_module *m = kymo_modules; m; m = m->next)
		for (struct kymo_event *event = m->events; event < m->events_end; event++) {
			/* In this order: who finds no filter finds no id either. */
			kymo_event_disable(event, slot);
			kymo_event_filter(event, slot, NULL);
		}
}
