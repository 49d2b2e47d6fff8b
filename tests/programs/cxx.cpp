// SPDX-License-Identifier: MIT OR Apache-2.0
// cxx.cpp: events in a C++17 program: in templates, lambdas, constructors of statics, destructors, threads,
// exceptions.
#include "common.h"

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

KYMO_ENUM(cxx, where, i32, (constructor, -1), (lambda, 2), (destructor, 3), (thrown, 4), (templated, 5))
KYMO_EVENT(cxx, at, (enum(cxx, where), where), (u64, n), (str, text), (seq(i64), numbers))
KYMO_EVENT(cxx, nothing)

struct Object {
	explicit Object(std::string text) : text(std::move(text))
	{
		kymo_trace(cxx, at, -1, 0, this->text.c_str(), nullptr, 0);
	}
	~Object() { kymo_trace(cxx, at, 3, 0, text.c_str(), nullptr, 0); }
	std::string text;
};

static Object early("static");

template <typename T> static void templated(const std::vector<T> &numbers)
{
	kymo_trace(cxx, at, 5, sizeof(T), "template", numbers.data(), numbers.size());
}

int main()
{
	live_shortly();
	Object inner("inner");
	auto lambda = [](uint64_t n) { kymo_trace(cxx, at, 2, n, "lambda", nullptr, 0); };
	std::vector<std::thread> threads;
	for (uint64_t n = 0; n < 4; n++)
		threads.emplace_back(lambda, n);
	for (auto &thread : threads)
		thread.join();
	templated(std::vector<int64_t>{ INT64_MIN, -1, INT64_MAX });
	try {
		throw std::runtime_error("thrown");
	} catch (const std::exception &error) {
		kymo_trace(cxx, at, 4, 0, error.what(), nullptr, 0);
	}
	if (kymo_trace_enabled(cxx, nothing))
		kymo_trace(cxx, nothing);
	return 0;
}
