// SPDX-License-Identifier: MIT OR Apache-2.0
// cxx.cc: victim: new and delete in all forms, exceptions, and the standard library's locks; constructors of static objects.

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::map<std::string, int> early = { { "before", 1 }, { "main", 2 } };

struct alignas(256) wide {
	char bytes[256];
};

// Argument: rounds of each thread.
int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? std::stoi(argv[1]) : 500;
	std::vector<std::thread> threads;
	std::condition_variable_any changed;
	std::shared_timed_mutex shared;
	std::recursive_mutex again;
	std::timed_mutex timed;
	std::mutex mutex;
	int caught = 0;

	for (int i = 0; i < 16; i++)
		threads.emplace_back([&] {
			for (int round = 0; round < rounds; round++) {
				auto one = std::make_unique<wide>();
				auto many = std::make_shared<std::vector<std::string>>(20, std::string(50, 'x'));

				if (reinterpret_cast<std::uintptr_t>(one.get()) % 256)
					std::abort();
				try {
					throw std::runtime_error(std::string(100, 'y'));
				} catch (const std::exception &) {
					std::unique_lock<std::mutex> lock(mutex);
					caught++;
					changed.notify_one();
				}
				std::shared_lock<std::shared_timed_mutex> reading(shared, std::chrono::seconds(10));
				std::lock_guard<std::recursive_mutex> outer(again), inner(again);
				if (timed.try_lock_for(std::chrono::seconds(10)))
					timed.unlock();
			}
		});
	{
		std::unique_lock<std::mutex> lock(mutex);
		changed.wait(lock, [&] { return caught == 16 * rounds; });
	}
	for (auto &thread : threads)
		thread.join();
	try {
		std::vector<char> impossible(static_cast<std::size_t>(-1) / 4);
	} catch (const std::bad_alloc &) {
		early["caught"] = caught;
	}
	std::printf("%d\n", early["caught"]);
	return early["caught"] == 16 * rounds ? 0 : 1;
}
