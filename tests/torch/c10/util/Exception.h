/* SPDX-License-Identifier: Apache-2.0 */
/* As much of PyTorch's <c10/util/Exception.h> as begin_hook.cpp uses, for compiling it here. */
#pragma once
#include <cstdint>
#include <exception>
#include <string>

#define C10_API __attribute__((visibility("default")))

namespace c10 {

struct SourceLocation {
    const char *function;
    const char *file;
    uint32_t line;
};

class C10_API Error : public std::exception {
  public:
    Error(SourceLocation place, std::string text) : text_(text), function_(place.function) {}
    Error(std::string text, std::string, const void * = nullptr) : text_(text) {}
    const char *what() const noexcept override { return text_.c_str(); }
    const std::string &function() const { return function_; }

  private:
    std::string text_, function_;
};

class C10_API OutOfMemoryError : public Error {
    using Error::Error;
};

} // namespace c10
