/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * register.c: the objects of this process that carry events: the executable, its libraries, what
 * dlopen brings and dlclose takes away. All under kymo_lock.
 */
#include "filter.h"
#include "settings.h"

KYMO_EXPORT void kymo__register(struct kymo_module *module)
{
	static bool started;
	bool first;

	if (module->abi != KYMO_ABI_VERSION)
		return;
	kymo_lock();
	kymo_settings_read();
	if (kymo_settings.is_disabled) {
		kymo_unlock();
		return;
	}
	first = !started;
	started = true;
	if (first) {
		kymo_calls_link();
		kymo_runtime_init();
	}
	module->rt = &kymo_runtime;
	module->index_base = kymo_events_end;
	kymo_events_end += kymo_event_count(module);
	for (uint32_t i = 0; i < kymo_event_count(module); i++)
		module->events[i].index = module->index_base + i;
	module->next = kymo_modules;
	kymo_modules = module;
	kymo_unlock();
	if (first)
		kymo_start();
	else
		kymo_announce();
}

KYMO_EXPORT void kymo__unregister(struct kymo_module *module)
{
	kymo_lock();
	for (struct kymo_module **at = &kymo_modules; *at; at = &(*at)->next)
		if (*at == module) {
			*at = module->next;
			kymo_retract(module);
			for (struct kymo_event *event = module->events; event < module->events_end; event++)
				if (event->filters)
					kymo_filters_free(event->filters);
			break;
		}
	kymo_unlock();
}
