// A program of the stand-in: executes commands on stdin, and answers each line with one.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::vector<void*> libraries, things;
static std::vector<int> library_of;

template <typename Function>
static Function* function(int library, const char* name) {
    void* found = dlsym(libraries.at(library), name);
    if (found == nullptr) throw std::runtime_error(std::string("no ") + name);
    return reinterpret_cast<Function*>(found);
}

static int keep(int library, void* thing) {
    things.push_back(thing);
    library_of.push_back(library);
    return static_cast<int>(things.size()) - 1;
}

static std::uint64_t allocate(int library, void* buffer) { return function<std::uint64_t(void*)>(library, "fake_allocate")(buffer); }
static void release(int library, void* buffer) { function<void(void*)>(library, "fake_free")(buffer); }

static std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    std::ostringstream said;
    if (what == "load") {
        std::string path;
        words >> path;
        // As Python loads its extensions.
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) throw std::runtime_error(dlerror());
        libraries.push_back(library);
        said << libraries.size() - 1;
    } else if (what == "reload") {
        // Loads, opens, closes and unloads repeatedly, and occupies the address so that the next one is elsewhere.
        std::string path;
        int times, moved = 0;
        words >> path >> times;
        for (int time = 0; time < times; ++time) {
            void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
            if (library == nullptr) throw std::runtime_error(dlerror());
            auto* open = reinterpret_cast<void* (*)(int)>(dlsym(library, "fake_open"));
            auto* close = reinterpret_cast<void (*)(void*)>(dlsym(library, "fake_close"));
            Dl_info place{};
            dladdr(reinterpret_cast<void*>(open), &place);
            close(open(1));
            dlclose(library);
            void* start = place.dli_fbase;
            if (mmap(start, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == start) ++moved;
        }
        said << moved;
    } else if (what == "open") {
        int library, chips;
        words >> library >> chips;
        void* mesh = function<void*(int)>(library, "fake_open")(chips);
        if (mesh == nullptr) throw std::runtime_error("the arguments did not arrive");
        said << keep(library, mesh);
    } else if (what == "allocate" || what == "binaries") {
        int mesh, kind, layout = 0;
        std::uint64_t size, page;
        words >> mesh >> kind >> size >> page >> layout;
        int library = library_of.at(mesh);
        auto* make = function<void*(void*, int, std::uint64_t, std::uint64_t, int)>(library, "fake_buffer");
        void* buffer = make(things[mesh], kind, size, page, layout);
        if (what == "binaries") {
            function<void(void*, void*)>(library, "fake_load_binaries")(things[mesh], buffer);
            said << keep(library, buffer);
        } else {
            errno = 0;
            std::uint64_t address = allocate(library, buffer);
            if (errno != 4711) throw std::runtime_error("errno is not what the allocator left");
            said << keep(library, buffer) << " " << address;
        }
    } else if (what == "operate") {
        // An operation of a library that is loaded for it alone.
        std::string path;
        int mesh;
        words >> path >> mesh;
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) throw std::runtime_error(dlerror());
        int home = library_of.at(mesh);
        void* buffer = function<void*(void*, int, std::uint64_t, std::uint64_t, int)>(home, "fake_buffer")(things[mesh], 0, 1024, 256, 0);
        auto* operate = reinterpret_cast<std::uint64_t (*)(std::uint64_t (*)(void*), void*)>(dlsym(library, "operate"));
        operate(function<std::uint64_t(void*)>(home, "fake_allocate"), buffer);
        dlclose(library);
        said << reinterpret_cast<void*>(operate);
    } else if (what == "free") {
        int buffer;
        words >> buffer;
        errno = 99;
        release(library_of.at(buffer), things[buffer]);
        if (errno != 99) throw std::runtime_error("errno is not what it was");
    } else if (what == "call") {
        // A function of the library with a mesh or program, and perhaps a number.
        std::string name;
        int thing;
        std::uint64_t number = 0;
        words >> name >> thing >> number;
        function<void(void*, std::uint64_t)>(library_of.at(thing), name.c_str())(things[thing], number);
    } else if (what == "trace") {
        int mesh, step;
        words >> mesh >> step;
        said << function<std::uint64_t(void*, int)>(library_of.at(mesh), "fake_trace")(things[mesh], step);
    } else if (what == "program") {
        int library, clashes, misses;
        std::uint64_t id;
        words >> library >> id >> clashes >> misses;
        said << keep(library, function<void*(std::uint64_t, int, int)>(library, "fake_program")(id, clashes, misses));
    } else if (what == "run") {
        int program, mesh;
        words >> program >> mesh;
        function<void(void*, void*)>(library_of.at(mesh), "fake_run")(things[program], things[mesh]);
    } else if (what == "seen") {
        int library;
        words >> library;
        said << function<std::uint64_t()>(library, "fake_seen")();
    } else if (what == "threads") {
        int mesh, count;
        words >> mesh >> count;
        int library = library_of.at(mesh);
        auto* make = function<void*(void*, int, std::uint64_t, std::uint64_t, int)>(library, "fake_buffer");
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 4; thread++) {
            threads.emplace_back([=] {
                for (int number = 0; number < count; number++) {
                    void* buffer = make(things[mesh], 0, 1024, 256, 0);
                    allocate(library, buffer);
                    if (number % 10 != 0) release(library, buffer);
                }
            });
        }
        for (auto& thread : threads) thread.join();
    } else if (what == "fork") {
        // The child frees what its parent made, then uses the device itself; its own ledger is its own business.
        int mesh, buffer;
        words >> mesh >> buffer;
        int library = library_of.at(mesh);
        pid_t child = fork();
        if (child == 0) {
            release(library, things[buffer]);
            void* own = function<void*(void*, int, std::uint64_t, std::uint64_t, int)>(library, "fake_buffer")(things[mesh], 0, 64, 64, 0);
            allocate(library, own);
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        said << status;
    } else if (what == "tag") {
        std::string text;
        words >> text;
        auto* push = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "ttmon_tag_push"));
        said << (push == nullptr ? -99 : push(text.c_str()));
    } else if (what == "setenv") {
        std::string name, value;
        words >> name >> value;
        setenv(name.c_str(), value.c_str(), 1);
    } else if (what == "memory") {
        int device, kind;
        words >> device >> kind;
        auto* ask = reinterpret_cast<int (*)(int, std::uint8_t, std::uint64_t*)>(dlsym(RTLD_DEFAULT, "ttmon_memory_allocated"));
        std::uint64_t bytes = 0;
        int code = ask == nullptr ? -99 : ask(device, static_cast<std::uint8_t>(kind), &bytes);
        said << code << " " << bytes;
    } else if (what == "bench") {
        int mesh, count;
        words >> mesh >> count;
        int library = library_of.at(mesh);
        auto* make = function<void*(void*, int, std::uint64_t, std::uint64_t, int)>(library, "fake_buffer");
        void* buffer = make(things[mesh], 0, 1024, 256, 0);
        auto* take = function<std::uint64_t(void*)>(library, "fake_allocate");
        auto* give = function<void(void*)>(library, "fake_free");
        auto start = std::chrono::steady_clock::now();
        for (int number = 0; number < count; number++) {
            take(buffer);
            give(buffer);
        }
        auto took = std::chrono::steady_clock::now() - start;
        said << std::chrono::duration_cast<std::chrono::nanoseconds>(took).count() / count;
    } else {
        throw std::runtime_error("no such word: " + what);
    }
    return said.str();
}

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        try {
            std::string said = answer(line);
            std::cout << "ok " << said << std::endl;
        } catch (const std::exception& thrown) {
            std::string text = thrown.what();
            for (char& character : text)
                if (character == '\n') character = '|';
            std::cout << "threw " << text << std::endl;
        }
    }
    return 0;
}
