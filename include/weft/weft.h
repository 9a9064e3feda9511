/* weft/weft.h - everything.  A concurrency runtime for C; see the guide in docs/guide. */
#ifndef WEFT_H
#define WEFT_H

#include <weft/abi.h>
#include <weft/base.h>
#include <weft/blocking.h>
#include <weft/budget.h>
#include <weft/cap.h>
#include <weft/chan.h>
#include <weft/child.h>
#include <weft/command.h>
#include <weft/context.h>
#include <weft/dns.h>
#include <weft/fiber.h>
#include <weft/file.h>
#include <weft/fork.h>
#include <weft/http.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/nursery.h>
#include <weft/process.h>
#include <weft/relay.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/shard.h>
#include <weft/signal.h>
#include <weft/sim.h>
#include <weft/stats.h>
#include <weft/stream.h>
#include <weft/supervisor.h>
#include <weft/sync.h>
#include <weft/task.h>
#include <weft/time.h>

#endif
