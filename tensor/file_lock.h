// One process at a time: a lock that ends with the process that holds it, however it ends. The file stays behind, empty; a
// lock that a killed process left is no lock. Thread-safe on different objects.
#pragma once

#include <string>

namespace seqgrad {

class FileLock {
 public:
  // Makes the file where there is none. Error: "FOLDER is in use by process 1234 on HOST: REMEDY", if somebody else has it.
  FileLock(const std::string& folder, const char* name, const char* remedy);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;  // -1: the file system has no locks
};

}  // namespace seqgrad
