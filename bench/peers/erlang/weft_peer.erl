%% weft_peer.erl - Erlang: processes and their mailboxes, which have no bound.  How it is called: ../common/peer.h; ./peer starts it.
-module(weft_peer).
-export([main/1]).

-define(GROUP, 1000).
-define(SKIP, 77).

main([Workload, _Workers | Rest]) ->
    Quick = Rest =:= ["quick"],
    %% In a process of its own, with room: the first one of the system has a small heap and a shell's duties.
    {Pid, Ref} = spawn_opt(fun() -> exit({answer, run(Workload, Quick)}) end, [monitor, {min_heap_size, 100000}]),
    receive
        {'DOWN', Ref, process, Pid, {answer, skip}} -> halt(?SKIP);
        {'DOWN', Ref, process, Pid, {answer, true}} -> halt(0);
        {'DOWN', Ref, process, Pid, _} -> halt(1)
    end.

run("spawn_join", Quick) -> spawn_join(some(Quick, 1000000));
run("fib", _) -> fork_join();
run("yield", Quick) -> yielding(some(Quick, 10000000));
run("pingpong", Quick) -> pingpong(some(Quick, 1000000));
run("mpsc", Quick) -> mpsc(some(Quick, 4000000));
run("skynet", Quick) -> skynet(some(Quick, 1000000));
run("actor_pingpong", Quick) -> actor_pingpong(some(Quick, 1000000));
run("actor_ring", Quick) -> actor_ring(some(Quick, 2000000));
run("actor_big", Quick) -> actor_big(some(Quick, 10000));
run("actor_create", Quick) -> actor_create(some(Quick, 200000));
run("sleepers", Quick) -> sleepers(case Quick of true -> 50000; false -> 1000000 end);
run("idle_memory_100k", _) -> idle_memory("idle_memory_100k", 100000);
run("idle_memory_1m", _) -> idle_memory("idle_memory_1m", 1000000);
run(_, _) -> skip.

some(true, Count) -> Count div 10;
some(false, Count) -> Count.

%% -- What all share ------------------------------------------------------------------------------------------------

now_ns() -> erlang:monotonic_time(nanosecond).

report(Name, Value, Unit) -> io:format("~s\t~.3f\t~s~n", [Name, float(Value), Unit]).

each(Start, Count) -> (now_ns() - Start) / Count.

%% A number in a file of /proc/self.
field(File, Pattern) ->
    {ok, Text} = file:read_file(File),
    {match, [Digits]} = re:run(Text, Pattern, [{capture, [1], list}]),
    list_to_integer(Digits).

rss() -> field("/proc/self/smaps_rollup", "Rss: *([0-9]+) kB") * 1024.

cpu_seconds() ->
    {ok, Text} = file:read_file("/proc/self/stat"),
    [_, After] = binary:split(Text, <<") ">>),
    Words = binary:split(After, <<" ">>, [global]),
    lists:sum([binary_to_integer(lists:nth(N, Words)) || N <- [12, 13]]) / 100.

%% So many messages `What` have come.
gather(_, 0) -> true;
gather(What, Left) -> receive What -> gather(What, Left - 1) end.

%% -- Tasks ---------------------------------------------------------------------------------------------------------

spawn_join(Count) ->
    Start = now_ns(),
    groups(Count div ?GROUP),
    report("spawn_join", each(Start, Count), "ns/task"),
    true.

%% A process says that it has ended; a monitor would cost more.
groups(0) -> ok;
groups(Left) ->
    Self = self(),
    start(?GROUP, Self),
    gather(done, ?GROUP),
    groups(Left - 1).

start(0, _) -> ok;
start(Left, Self) ->
    spawn(fun() -> Self ! done end),
    start(Left - 1, Self).

%% fib(25), not 35: a fork costs a hundred times a weft fork, and does not depend on n.
fork_join() ->
    Start = now_ns(),
    Value = fib(25),
    report("fib", each(Start, 121392), "ns/fork"),
    Value =:= 75025.

%% Whichever part comes: only their sum matters.
fib(N) when N < 2 -> N;
fib(N) ->
    Self = self(),
    spawn(fun() -> Self ! {fib, fib(N - 1)} end),
    B = fib(N - 2),
    receive {fib, A} -> A + B end.

yielding(Count) ->
    case erlang:system_info(schedulers) of
        1 ->
            Self = self(),
            Start = now_ns(),
            [spawn(fun() -> yields(Count div 2), Self ! done end) || _ <- [1, 2]],
            gather(done, 2),
            report("yield", each(Start, Count), "ns/yield"),
            true;
        _ -> skip
    end.

yields(0) -> ok;
yields(Left) -> erlang:yield(), yields(Left - 1).

idle_memory(Name, Count) ->
    Self = self(),
    Before = rss(),
    All = [spawn(fun() -> Self ! parked, receive go -> Self ! passed end end) || _ <- lists:seq(1, Count)],
    gather(parked, Count),
    report(Name, (rss() - Before) / Count, "bytes"),
    [P ! go || P <- All],
    gather(passed, Count).

sleepers(Count) ->
    Self = self(),
    Cpu = cpu_seconds(),
    Start = now_ns(),
    start_sleepers(Count, 1, Self),
    Good = gather(woke, Count),
    report("sleepers_wall", (now_ns() - Start) / 1.0e9, "s"),
    report("sleepers_cpu", cpu_seconds() - Cpu, "s"),
    report("sleepers_rss", field("/proc/self/status", "VmHWM:\\s*([0-9]+) kB") * 1024 / 1.0e6, "MB"),
    Good.

start_sleepers(0, _, _) -> ok;
start_sleepers(Left, Random, Self) ->
    Next = (Random * 6364136223846793005 + 1442695040888963407) band 16#ffffffffffffffff,
    Ms = 1 + (Next bsr 33) rem 1000,
    spawn(fun() ->
        Until = now_ns() + Ms * 1000000,
        receive after Ms -> ok end,
        Self ! case now_ns() >= Until of true -> woke; false -> early end
    end),
    start_sleepers(Left - 1, Next, Self).

%% -- Channels: the mailbox of a process ----------------------------------------------------------------------------

pingpong(Count) ->
    Pong = spawn_link(fun Loop() -> receive {From, Ball} -> From ! Ball + 1, Loop() end end),
    Start = now_ns(),
    Good = balls(Pong, 0, Count),
    report("pingpong", each(Start, Count), "ns/rtt"),
    Good.

balls(_, Count, Count) -> true;
balls(Pong, I, Count) ->
    Pong ! {self(), I},
    Next = I + 1,
    receive Next -> balls(Pong, Next, Count) end.

mpsc(Count) ->
    Self = self(),
    Each = Count div 4,
    Start = now_ns(),
    [spawn(fun() -> produce(Self, 0, Each) end) || _ <- [1, 2, 3, 4]],
    Sum = consume(Count, 0),
    report("mpsc", each(Start, Count), "ns/message"),
    Sum =:= 4 * (Each * (Each - 1) div 2).

produce(_, Each, Each) -> ok;
produce(To, I, Each) -> To ! I, produce(To, I + 1, Each).

consume(0, Sum) -> Sum;
consume(Left, Sum) -> receive Value -> consume(Left - 1, Sum + Value) end.

skynet(Leaves) ->
    Self = self(),
    Start = now_ns(),
    spawn(fun() -> node(Self, 0, Leaves) end),
    Sum = consume(1, 0),
    report("skynet", (now_ns() - Start) / 1.0e6, "ms"),
    Sum =:= Leaves * (Leaves - 1) div 2.

node(Parent, First, 1) -> Parent ! First;
node(Parent, First, Leaves) ->
    Self = self(),
    Share = Leaves div 10,
    children(Self, First, Share, 10),
    Parent ! consume(10, 0).

children(_, _, _, 0) -> ok;
children(Self, First, Share, Left) ->
    spawn(fun() -> node(Self, First, Share) end),
    children(Self, First + Share, Share, Left - 1).

%% -- Actors --------------------------------------------------------------------------------------------------------

actor_pingpong(Count) ->
    Self = self(),
    Start = now_ns(),
    Pong = spawn(fun() -> pong(Count) end),
    spawn(fun() -> Self ! {good, ping(Pong, 0, Count)} end),
    Good = receive {good, Answer} -> Answer end,
    report("actor_pingpong", each(Start, Count), "ns/rtt"),
    Good.

pong(0) -> ok;
pong(Left) -> receive {Value, From} -> From ! {Value + 1, self()}, pong(Left - 1) end.

ping(_, Count, Count) -> true;
ping(Pong, I, Count) ->
    Pong ! {2 * I, self()},
    Answer = 2 * I + 1,
    receive {Answer, Pong} -> ping(Pong, I + 1, Count) end.

actor_ring(Count) ->
    Self = self(),
    Start = now_ns(),
    First = spawn(fun() -> receive {next, Next} -> pass_on(Next, Self) end end),
    Last = lists:foldl(fun(_, Next) -> spawn(fun() -> pass_on(Next, Self) end) end, First, lists:seq(1, 502)),
    First ! {next, Last},
    First ! Count,
    Good = gather(over, 503),
    report("actor_ring", each(Start, Count), "ns/hop"),
    Good.

pass_on(Next, Owner) ->
    receive Value ->
        Value > 0 andalso (Next ! Value - 1),
        if Value < 503 -> Owner ! over; true -> pass_on(Next, Owner) end
    end.

actor_big(Rounds) ->
    Self = self(),
    Count = 120,
    Start = now_ns(),
    All = [spawn(fun() -> receive {all, Others} -> somebody(Others, random(I), 0, 0, Rounds, Self) end end)
           || I <- lists:seq(0, Count - 1)],
    Others = list_to_tuple(All),
    [P ! {all, Others} || P <- All],
    gather({done, Rounds}, Count),
    [P ! stop || P <- All],
    Good = gather(over, Count),
    report("actor_big", each(Start, 2 * Rounds * Count), "ns/message"),
    Good.

%% 32 bits: a word of 64 would not fit into one of Erlang's.
random(I) -> (I * 16#9e3779b9 + 1) band 16#ffffffff.

next_random(R) ->
    A = (R bxor (R bsl 13)) band 16#ffffffff,
    B = A bxor (A bsr 17),
    (B bxor (B bsl 5)) band 16#ffffffff.

somebody(Others, Random, Sent, Seen, Rounds, Owner) ->
    Next = next_random(Random),
    element(1 + Next rem tuple_size(Others), Others) ! {ping, self()},
    big(Others, Next, Sent + 1, Seen, Rounds, Owner).

big(Others, Random, Sent, Seen, Rounds, Owner) ->
    receive
        {ping, From} ->
            From ! pong,
            big(Others, Random, Sent, Seen, Rounds, Owner);
        pong when Sent < Rounds ->
            somebody(Others, Random, Sent, Seen + 1, Rounds, Owner);
        pong ->
            Seen + 1 =:= Rounds andalso (Owner ! {done, Seen + 1}),
            big(Others, Random, Sent, Seen + 1, Rounds, Owner);
        stop ->
            Owner ! over
    end.

actor_create(Count) ->
    Self = self(),
    Start = now_ns(),
    create(Count, Self),
    Good = gather(right, Count),
    report("actor_create", each(Start, Count), "ns/process"),
    Good.

create(0, _) -> ok;
create(I, Self) ->
    P = spawn(fun() -> receive I -> Self ! right end end),
    P ! I,
    create(I - 1, Self).
