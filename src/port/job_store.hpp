// Port: the durable queue of one user on one machine, in three parts: JobReader looks, JobDesk is where people hand in and
// change jobs, JobWork is where the runner and its lanes take tasks. One implementation serves all three; whoever needs one
// part asks for that part.
//
// Every function is one transaction: all of it is stored or nothing. What fails throws Error(unavailable): the disk is full
// (sys_errno ENOSPC; nothing is changed, try again), the file is damaged or of a newer thole. Several processes may use a store
// at once; one object belongs to one thread, and must be put away (JobWork::rest) before its process forks.
#pragma once

#include "port/job_desk.hpp"
#include "port/job_reader.hpp"
#include "port/job_work.hpp"

namespace thole::port {

class JobStore : public JobReader, public JobDesk, public JobWork {};

}  // namespace thole::port
