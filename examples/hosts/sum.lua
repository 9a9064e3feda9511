-- sum.lua - weft from LuaJIT: the headers as they are, poll tasks in Lua coroutines, on a runtime that Lua's own thread drives.
--
-- usage: luajit sum.lua [path of libweft.so [folder of the headers]]
--
-- Three tasks send numbers through a channel, one adds them up.  LuaJIT allows callbacks on the thread that called into C only; that is the one that
-- calls weft_drive_wait.
local ffi = require "ffi"

local headers = assert(io.popen("printf '#include <weft/weft.h>' | cc -E -P -xc - -I" .. (arg[2] or "/usr/local/include")))
ffi.cdef(headers:read "*a") -- functions, structs and enums; not macros
headers:close()
local weft = ffi.load(arg[1] or "weft")
local EAGAIN, NEVER = -11, 0x7fffffffffffffffLL

local function check(result)
    if result < 0 then error(ffi.string(weft.weft_strerror(result)), 2) end
    return result
end

local config = ffi.new("weft_config", {size = ffi.sizeof "weft_config", workers = 1, driven = true}) -- the rest is 0, as in WEFT_CONFIG_INIT
local out = ffi.new "weft_runtime *[1]"
check(weft.weft_runtime_create(config, out))
local runtime = out[0]

local channels = ffi.new "weft_chan *[1]"
check(weft.weft_chan_create(8, 2, channels))
local channel = channels[0]

-- A coroutine as a poll task.  One callback serves all: LuaJIT has few of them.
local tasks = {}
local poll = ffi.cast("weft_poll_fn", function(self, state)
    local task = tasks[tonumber(ffi.cast("intptr_t", state))]
    local good, result = coroutine.resume(task.steps, self)
    if not good then task.error = result end
    return coroutine.status(task.steps) == "dead" and weft.WEFT_READY or result
end)
local function go(steps)
    local handle = ffi.new "weft_task *[1]"
    tasks[#tasks + 1] = {steps = coroutine.create(steps), handle = handle}
    check(weft.weft_go(runtime, poll, ffi.cast("void *", #tasks), handle))
end

-- The same call again and again until it is through.
local function wait(self, call, value)
    local room = ffi.new "weft_wait"
    local result = call(channel, self, room, value)
    while result == EAGAIN do
        self = coroutine.yield(weft.WEFT_PENDING)
        result = call(channel, self, room, value)
    end
    check(result)
    return self
end

local total = 0
for first = 0, 2000, 1000 do
    go(function(self)
        for i = 0, 99 do
            self = wait(self, weft.weft_chan_send_poll, ffi.new("int64_t[1]", first + i))
            self = coroutine.yield(weft.WEFT_YIELD)
        end
    end)
end
go(function(self)
    local value = ffi.new "int64_t[1]"
    for _ = 1, 300 do
        self = wait(self, weft.weft_chan_recv_poll, value)
        total = total + tonumber(value[0])
    end
end)

local function drive() check(weft.weft_drive_wait(runtime, 0, NEVER)) end
jit.off(drive) -- compiled Lua must not call what calls Lua

for _, task in ipairs(tasks) do
    while not weft.weft_task_is_done(task.handle[0]) do drive() end
    weft.weft_task_drop(task.handle[0])
    if task.error then error(task.error) end
end
weft.weft_chan_drop(channel)
check(weft.weft_runtime_destroy(runtime))
print("300 numbers, sum " .. total)
